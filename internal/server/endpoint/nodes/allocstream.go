package nodes

import (
	"context"
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// nodeAllocs pushes a node's allocs: all of them first, as of an index that the leader confirmed, then what changed as
// soon as it changes.
func (e *Endpoints) nodeAllocs(
	ctx context.Context, req *wire.NodeAllocsRequest, stream *wire.Stream[wire.AllocSet, wire.Empty],
) error {
	if err := e.cfg.Cluster.Confirm(ctx); err != nil {
		return err
	}
	if _, _, err := e.obeyed(ctx, req.NodeIdentity); err != nil {
		return err
	}
	sent, sentMark := pushed{}, ""
	var held []wire.SuspendedAlloc
	for full := true; ; full = false {
		snap, w := e.cfg.Store.Snapshot(), state.NewWatch()
		if _, err := Obeyed(snap, w, req.NodeIdentity); err != nil { // another session has begun
			return err
		}
		at := snap.Point(w) // a new leadership's mark is sent even when nothing else changed
		if at.Incarnation == "" {
			return fault.New(fault.Internal, "push allocs to", fmt.Sprintf("node %q", req.Node),
				"the cluster has no identity yet")
		}
		set, err := sent.next(snap, w, req.Node)
		if err != nil {
			return err
		}
		set.At, set.Full = at, full
		if r := snap.Recovery(nil); r.Restored(req.Node, 0) {
			set.Restored = r.Index
		}
		if full {
			set.Relation = snap.Relate(req.Seen)
		}
		set.Suspended = suspendedOn(snap, w, req.Node)
		if full || at.Mark != sentMark || len(set.Bundles)+len(set.Gone) > 0 || !slices.Equal(set.Suspended, held) {
			if err := stream.Send(set); err != nil {
				return err
			}
			sentMark, held = at.Mark, set.Suspended
		}
		if err := w.Wait(ctx); err != nil {
			return err
		}
	}
}

// suspendedOn lists the allocs of a node with a volume that nothing may be begun with.
func suspendedOn(s *state.Snap, w *state.Watch, node ids.Node) (out []wire.SuspendedAlloc) {
	if !suspension.Any(s, w) {
		return nil
	}
	for a := range s.AllocsByNode(w, node) {
		if a.ClientTerminal() {
			continue
		}
		for c := range s.ClaimsByAlloc(w, a.ID) {
			if why := suspension.Calls(s, w, c.Staging()); why != nil {
				out = append(out, wire.SuspendedAlloc{
					Alloc:  a.ID,
					Reason: fmt.Sprintf("volume %q: %s", c.Volume.ID, why),
				})
				break
			}
		}
	}
	return out
}

// pushed remembers which state of which alloc a node was sent.
type pushed map[ids.Alloc]uint64

// next collects what the node does not know yet. What the node itself reported is not sent back to it.
func (p pushed) next(s *state.Snap, w *state.Watch, node ids.Node) (*wire.AllocSet, error) {
	set := &wire.AllocSet{}
	seen := make(map[ids.Alloc]bool, len(p))
	for a := range s.AllocsByNode(w, node) {
		seen[a.ID] = true
		if at, known := p[a.ID]; known && at == a.AllocModifyIndex {
			continue
		}
		j := s.JobOf(nil, a)
		if j == nil {
			return nil, fault.New(fault.Internal, "push", fmt.Sprintf("alloc %q", a.ID),
				fmt.Sprintf("version %d of its job is not stored", a.JobVersion))
		}
		p[a.ID] = a.AllocModifyIndex
		set.Bundles = append(set.Bundles, alloc.Bundle{Alloc: a, Job: j})
	}
	for id := range p {
		if !seen[id] {
			delete(p, id)
			set.Gone = append(set.Gone, id)
		}
	}
	return set, nil
}
