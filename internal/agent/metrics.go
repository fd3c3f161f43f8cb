package agent

import (
	"context"
	"time"

	"berth/internal/agent/measures"
	"berth/internal/httpapi/gauges"
)

// usagePatience is how long the numbers of tasks may take: whoever collects them waits.
const usagePatience = 2 * time.Second

// Gauges implements httpapi.Self.
func (a *Agent) Gauges(ctx context.Context) []gauges.Gauge {
	out := measures.Disk(string(a.NodeID()), a.cfg.DataDir)
	if a.client == nil {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, usagePatience)
	defer cancel()
	node := string(a.client.ID())
	out = append(out, measures.Services(node, a.client.ServicesInConsul())...)
	out = append(out, measures.Volumes(node, a.client.VolumeUsage(), time.Now())...)
	return append(out, measures.Tasks(node, a.client.TasksUse(ctx))...)
}
