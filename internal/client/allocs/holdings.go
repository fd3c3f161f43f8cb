package allocs

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/allocrunner"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// Holdings is all that the node answers for: what the table says, and what runs in shims that no record knows.
type Holdings struct {
	*Table
	shims *shim.Keeper // nil: no drivers launch anything
}

// NewHoldings returns what a table and the shims of the node hold.
func NewHoldings(t *Table, shims *shim.Keeper) *Holdings { return &Holdings{Table: t, shims: shims} }

// ProcessesGone implements csimanager.ProcessGate. An alloc that this node has no record of, but a directory, a damaged
// record or a shim with processes, is not proven gone.
func (h *Holdings) ProcessesGone(id ids.Alloc) (bool, string) {
	h.mu.Lock()
	r := h.byID[id]
	damaged := h.damaged[id]
	restoring := h.restoring(id)
	h.mu.Unlock()
	switch {
	case r != nil:
		return r.ProcessesGone()
	case damaged != nil:
		return false, "its record is damaged: " + damaged.Error()
	case restoring:
		return false, "the agent has just started and has not looked for its tasks yet"
	case h.AllocDir(id).Exists():
		return false, "its directory is there, but nothing is known of its tasks"
	case h.shims != nil:
		return h.shims.Gone(id)
	}
	return true, ""
}

// Any reports whether the node has anything that it answers for: tasks, mounts, or what may be some.
func (h *Holdings) Any() bool {
	h.mu.Lock()
	held := len(h.unrecorded)+len(h.damaged) > 0
	h.mu.Unlock()
	held = held || len(h.ShimOrphans()) > 0
	return held || slices.ContainsFunc(h.runners(), func(r *allocrunner.Runner) bool { return !r.Released() })
}

// OrphansChanged returns a channel that is closed when the orphans may have changed.
func (h *Holdings) OrphansChanged() <-chan struct{} { return h.orphaned.C() }

// ShimOrphans lists the shims of allocs that no record of this node knows: they are kept.
func (h *Holdings) ShimOrphans() []shim.Held {
	return slices.DeleteFunc(h.shims.Orphans(), func(s shim.Held) bool { return h.Known(s.Alloc) }) // taken up since
}

// Orphans lists what nobody decides about, for the node's description.
func (h *Holdings) Orphans() []node.Orphan {
	var out []node.Orphan
	for _, r := range h.runners() {
		o := r.Orphan()
		if o == nil || r.Released() {
			continue
		}
		gone, _ := r.ProcessesGone()
		n := node.Orphan{Alloc: r.ID(), Reason: o.Reason, Since: o.Since.UTC(), Processes: !gone}
		describe(&n, r.Bundle())
		out = append(out, n)
	}
	h.mu.Lock()
	lost := maps.Clone(h.unrecorded)
	h.mu.Unlock()
	bundles := map[ids.Alloc][]byte{}
	for _, held := range h.ShimOrphans() {
		bundles[held.Alloc] = held.Bundle
		if _, listed := lost[held.Alloc]; !listed {
			lost[held.Alloc] = held.Since
		}
	}
	for id, since := range lost {
		out = append(out, lostRecord(id, since, bundles[id]))
	}
	slices.SortFunc(out, func(x, y node.Orphan) int { return cmp.Compare(x.Alloc, y.Alloc) })
	return out
}

// lostRecord names an alloc whose record is lost by what its shim keeps of it.
func lostRecord(id ids.Alloc, since time.Time, bundle []byte) node.Orphan {
	o := node.Orphan{Alloc: id, Reason: unrecordedReason, Since: since.UTC(), Processes: true}
	var b alloc.Bundle
	if len(bundle) == 0 || wire.Decode(bundle, &b) != nil || b.Alloc == nil || b.Job == nil || b.Alloc.ID != id {
		return o // it is shown by its id
	}
	describe(&o, b)
	return o
}

func describe(o *node.Orphan, b alloc.Bundle) {
	o.Namespace, o.Job = b.Alloc.Namespace, b.Alloc.Job
	o.Group, o.Name = b.Alloc.TaskGroup, b.Alloc.Name
	o.Volumes, o.Plugin = b.CSIVolumes(), b.RunsPlugin()
}
