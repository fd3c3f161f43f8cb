// Package gauges owns how an agent's numbers are shown: as readers of this API's metrics know them, and as Prometheus
// reads them. Only httpapi imports it.
package gauges

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Gauge is a number of now.
type Gauge struct {
	Name   string
	Value  float64
	Labels map[string]string
}

// Of lists what is a number among statistics by group and name, in order.
func Of(stats map[string]map[string]string) []Gauge {
	out := []Gauge{}
	for _, group := range slices.Sorted(maps.Keys(stats)) {
		for _, name := range slices.Sorted(maps.Keys(stats[group])) {
			if v, err := strconv.ParseFloat(stats[group][name], 64); err == nil {
				out = append(out, Gauge{Name: "berth." + group + "." + name, Value: v, Labels: map[string]string{}})
			}
		}
	}
	return out
}

// Write writes gauges in Prometheus' text format.
func Write(w io.Writer, all []Gauge) error {
	for _, g := range all {
		name := strings.NewReplacer(".", "_", "-", "_").Replace(g.Name)
		if _, err := fmt.Fprintf(w, "# TYPE %s gauge\n%s %s\n", name, name,
			strconv.FormatFloat(g.Value, 'g', -1, 64)); err != nil {
			return err
		}
	}
	return nil
}
