package agent

import (
	"time"

	"berth/internal/agent/measures"
	"berth/internal/httpapi/gauges"
)

// Gauges implements httpapi.Self.
func (a *Agent) Gauges() []gauges.Gauge {
	out := measures.Disk(string(a.NodeID()), a.cfg.DataDir)
	if a.client != nil {
		out = append(out, measures.Volumes(string(a.client.ID()), a.client.VolumeUsage(), time.Now())...)
	}
	return out
}
