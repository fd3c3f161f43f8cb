package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gauge is a number of now, in the shape that readers of this API's metrics know.
type gauge struct {
	Name   string
	Value  float64
	Labels map[string]string
}

// metricsReply is the shape of GET /v1/metrics.
type metricsReply struct {
	Timestamp string
	Gauges    []gauge
	Points    []any
	Counters  []any
	Samples   []any
}

// metrics shows the numbers among the agent's and the servers' statistics.
func (s *Server) metrics(w http.ResponseWriter, r *request) error {
	format := r.arg("format")
	if format != "" && format != "json" && format != "prometheus" {
		return badRequest("format must be json or prometheus, is " + strconv.Quote(format))
	}
	gauges := s.gauges(r)
	if format != "prometheus" {
		s.reply(w, r, metricsReply{Timestamp: time.Now().UTC().Format("2006-01-02 15:04:05 +0000 UTC"), Gauges: gauges, Points: []any{}, Counters: []any{}, Samples: []any{}})
		return nil
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, g := range gauges {
		name := strings.NewReplacer(".", "_", "-", "_").Replace(g.Name)
		if _, err := fmt.Fprintf(w, "# TYPE %s gauge\n%s %s\n", name, name, strconv.FormatFloat(g.Value, 'g', -1, 64)); err != nil {
			return nil // the client is gone
		}
	}
	return nil
}

func (s *Server) gauges(r *request) []gauge {
	_, stats := s.cfg.Self.Describe()
	if st, err := s.status(r); err == nil { // without servers the agent's own numbers are all there is
		maps.Copy(stats, st.Stats)
	}
	out := []gauge{}
	for _, group := range slices.Sorted(maps.Keys(stats)) {
		for _, name := range slices.Sorted(maps.Keys(stats[group])) {
			if v, err := strconv.ParseFloat(stats[group][name], 64); err == nil {
				out = append(out, gauge{Name: "berth." + group + "." + name, Value: v, Labels: map[string]string{}})
			}
		}
	}
	return out
}
