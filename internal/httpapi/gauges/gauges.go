// Package gauges owns how an agent's numbers are shown: as readers of this API's metrics know them, and as Prometheus
// reads them. Only httpapi imports it, and the agent, which has numbers.
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

// Write writes gauges in Prometheus' text format, those of a name together.
func Write(w io.Writer, all []Gauge) error {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Gauge) int { return strings.Compare(a.Name, b.Name) })
	last := ""
	for _, g := range all {
		name := strings.NewReplacer(".", "_", "-", "_").Replace(g.Name)
		head := ""
		if name != last {
			head, last = "# HELP "+name+" "+help(g.Name)+"\n# TYPE "+name+" gauge\n", name
		}
		value := strconv.FormatFloat(g.Value, 'g', -1, 64)
		if _, err := fmt.Fprintf(w, "%s%s%s %s\n", head, name, labels(g.Labels), value); err != nil {
			return err
		}
	}
	return nil
}

// labels writes labels in order; their values are anybody's text.
func labels(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+`="`+escape.Replace(m[k])+`"`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}
