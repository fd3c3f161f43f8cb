package storage

import (
	"context"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// volumeRelease hands a node the word of a person that nothing is left of a volume there. The node alone can look, so
// it decides, and ends the claim by its report; the word stays in the volume's history. It is refused here already
// while the node's last report shows the volume.
func (e *Endpoints) volumeRelease(ctx context.Context, r *wire.VolumeReleaseRequest) (*wire.Written, error) {
	s := e.cfg.Store.Snapshot()
	subject := `volume "` + string(r.Volume.ID) + `"`
	v := s.Volume(nil, r.Volume)
	if v == nil {
		return nil, notFound("release", r.Volume)
	}
	i := s.InventoryEntry(nil, r.Node, v.Staging())
	if i == nil {
		return nil, fault.New(fault.NotFound, "release", subject, "node "+ids.Short(r.Node)+" reports nothing of it")
	}
	shown := func(what string, p volume.Presence) error {
		return fault.WithHint(fault.New(fault.Conflict, "release", subject,
			fmt.Sprintf("node %s reports that %s is %s", ids.Short(r.Node), what, p)),
			"stop the allocations that use it; the node unmounts it then")
	}
	if i.Entry.Staging == volume.Present {
		return nil, shown("its staging", i.Entry.Staging)
	}
	for _, p := range i.Entry.Publications {
		if p.Wanted || p.Presence == volume.Present {
			return nil, shown("its publication for allocation "+ids.Short(p.Alloc), p.Presence)
		}
	}
	conn, err := e.cfg.Nodes.Await(ctx, r.Node)
	if err != nil {
		return nil, fault.WithHint(fault.Note(err, "release", subject),
			"of a node that is dead for certain, claims are ended by: berth volume detach -node-is-dead <reason> "+
				v.ID.Typed()+" "+ids.Short(r.Node))
	}
	_, err = wire.AgentReleaseVolume.Call(ctx, conn, &wire.ReleaseVolumeRequest{
		Node:       r.Node,
		StagingKey: v.Staging(),
		Reason:     r.Reason,
		By:         r.By,
	})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a volume is released on a node because a person said that nothing of it is left there", "volume",
		r.Volume.String(), "node", r.Node, "reason", r.Reason, "by", r.By)
	return &wire.Written{Index: s.Index()}, nil
}
