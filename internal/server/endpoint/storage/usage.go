package storage

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Bounds of asking nodes what they have measured: how long one may take, and how many are asked at once.
const (
	usageWait     = 3 * time.Second
	usageParallel = 32
)

// volumeUsage asks the nodes on which a volume is published what they have measured of it. What they know lives there
// alone; one that does not answer is named with the reason.
// Of differing conditions the worst counts (CSI spec, VolumeCondition).
func (e *Endpoints) volumeUsage(ctx context.Context, r *wire.Ref[ids.Volume]) (*wire.VolumeUsageReply, error) {
	s := e.cfg.Store.Snapshot()
	id := volume.ID{Namespace: r.Namespace, ID: r.ID}
	v := s.Volume(nil, id)
	if v == nil {
		return nil, notFound("measure", id)
	}
	var nodes []ids.Node
	for i := range s.InventoriesOf(nil, v.Staging()) {
		for _, p := range i.Entry.Publications {
			if p.Presence == volume.Present {
				nodes = append(nodes, i.Node)
				break
			}
		}
	}
	out := &wire.VolumeUsageReply{Nodes: make([]wire.VolumeUsage, len(nodes))}
	slots := make(chan struct{}, usageParallel)
	g, gctx := lifecycle.NewGroup(ctx)
	for i, n := range nodes {
		g.Go("ask a node", func() error {
			slots <- struct{}{}
			defer func() { <-slots }()
			out.Nodes[i] = e.nodeUsage(gctx, n, v.Staging())
			return nil
		})
	}
	err := g.Wait()
	out.Abnormal = v.Status.Observed != nil && v.Status.Observed.Abnormal
	for _, n := range out.Nodes {
		out.Abnormal = out.Abnormal || n.Condition != nil && n.Condition.Abnormal
	}
	return out, err
}

// nodeUsage asks one node.
func (e *Endpoints) nodeUsage(ctx context.Context, n ids.Node, key volume.StagingKey) wire.VolumeUsage {
	ctx, cancel := context.WithTimeout(ctx, usageWait)
	defer cancel()
	conn, err := e.cfg.Nodes.NodeConn(n)
	if err == nil {
		var out *wire.VolumeUsage
		ask := &wire.VolumeUsageRequest{Node: n, StagingKey: key}
		if out, err = wire.AgentVolumeUsage.Call(ctx, conn, ask); err == nil {
			return *out
		}
	}
	why := "the node did not say it: "
	if fault.Has(err, fault.NotFound) {
		why = ""
	}
	return wire.VolumeUsage{Node: n, Measured: volume.Measured{Error: why + err.Error()}}
}
