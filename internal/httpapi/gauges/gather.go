package gauges

import (
	"context"
	"maps"

	"berth/internal/base/ids"
	"berth/internal/wire"
)

// Source is an agent with numbers of its own.
type Source interface {
	// Describe returns the agent's configuration and its statistics by group.
	Describe() (config map[string]any, stats map[string]map[string]string)
	// Gauges are those of its numbers that carry labels.
	Gauges(ctx context.Context) []Gauge
	// NodeID is the id of the node in this agent, or empty.
	NodeID() ids.Node
}

// Gather collects the numbers of an agent, and of the servers that it asks. Without them its own are all there is:
// that they do not answer is what their health says.
func Gather(ctx context.Context, servers wire.Conn, self Source) []Gauge {
	_, stats := self.Describe()
	if st, err := wire.SystemStatus.Call(ctx, servers, &wire.Empty{}); err == nil {
		maps.Copy(stats, st.Stats)
	}
	all := append(Of(stats), self.Gauges(ctx)...)
	for _, g := range all {
		if g.Name == ours+writesRefused {
			all = append(all, Gauge{Name: known + writesRefused, Value: g.Value, Labels: g.Labels})
		}
	}
	if counts, err := wire.SystemCounts.Call(ctx, servers, &wire.Query{}); err == nil {
		all = append(all, Counted(counts, self.NodeID())...)
	}
	return all
}

// Names of what was refused, in both families.
const (
	writesRefused   = "raft.refused_disk_full"
	requestsRefused = "http.requests_refused"
)

// Refused lists the requests and connections that were answered with 429 and with 503.
func Refused(tooMany, unavailable uint64) []Gauge {
	var out list
	for _, family := range []string{known, ours} {
		out.add(family+requestsRefused, int(tooMany), map[string]string{"status": "429"})
		out.add(family+requestsRefused, int(unavailable), map[string]string{"status": "503"})
	}
	return out
}
