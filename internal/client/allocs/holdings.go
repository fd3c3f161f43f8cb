package allocs

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/client/allocrunner"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Holdings is all that the node answers for: what the table says, and what runs in shims that no record knows.
type Holdings struct {
	*Table
	shims   *shim.Keeper // nil: no drivers launch anything
	volumes Volumes
	kept    Kept // nil: none does
}

// Kept is what drivers keep by themselves; the driver manager implements it.
type Kept interface {
	Gone(ids.Alloc) (bool, string)
	Drop(context.Context, ids.Alloc) error
}

// Volumes says what the node holds of volumes for an alloc; the node keeper of volumes implements it.
type Volumes interface {
	HeldBy(ids.Alloc) []wire.HeldVolume
	// Publications lists what is there of an alloc's volumes, or is wanted.
	Publications(ids.Alloc) []volume.PublicationKey
	// Free reports that nothing is left of a publication, nor of the staging beneath it unless another uses that, or
	// what that waits for.
	Free(volume.PublicationKey) (bool, string)
	// Changed returns a channel that is closed at the next change of any of these answers.
	Changed() <-chan struct{}
}

// NewHoldings returns what a table and the shims of the node hold.
func NewHoldings(t *Table, shims *shim.Keeper, kept Kept) *Holdings {
	return &Holdings{Table: t, shims: shims, kept: kept}
}

// Use says what holds volumes for the allocs. It comes before anything is asked about them.
func (h *Holdings) Use(v Volumes) { h.volumes = v }

// ProcessesGone implements csimanager.ProcessGate. An alloc whose record is damaged is not proven gone. Of one without
// a record the shims and their cgroups tell, and the drivers that launch without them.
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
	}
	if h.shims != nil {
		if gone, why := h.shims.Gone(id); !gone {
			return false, why
		}
	}
	if h.kept != nil {
		return h.kept.Gone(id)
	}
	return true, ""
}

// Any reports whether the node has anything that it answers for: tasks, mounts, or what may be some.
func (h *Holdings) Any() bool {
	h.mu.Lock()
	held := len(h.damaged) > 0
	h.mu.Unlock()
	held = held || len(h.ShimOrphans()) > 0
	held = held || slices.ContainsFunc(h.leftovers(), func(id ids.Alloc) bool { return !h.left(id).over() })
	return held || slices.ContainsFunc(h.Runners(), func(r *allocrunner.Runner) bool { return !r.Released() })
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
	for _, r := range h.Runners() {
		o := r.Orphan()
		if o == nil || r.Released() {
			continue
		}
		gone, _ := r.ProcessesGone()
		n := node.Orphan{Alloc: r.ID(), Reason: o.Reason, Since: o.Since.UTC(), Processes: !gone}
		if r.Stopped() {
			n.Awaits = h.awaited(r)
		}
		describe(&n, r.Bundle())
		out = append(out, n)
	}
	shims := map[ids.Alloc]shim.Held{}
	for _, held := range h.ShimOrphans() {
		shims[held.Alloc] = held
	}
	all := slices.Collect(maps.Keys(shims))
	for _, id := range h.leftovers() {
		if _, listed := shims[id]; !listed && !h.left(id).over() {
			all = append(all, id)
		}
	}
	for _, id := range all {
		out = append(out, h.lostRecord(id, shims[id]))
	}
	slices.SortFunc(out, func(x, y node.Orphan) int { return cmp.Compare(x.Alloc, y.Alloc) })
	return out
}

// awaited says what the end of an orphan that a person ends waits for.
func (h *Holdings) awaited(r *allocrunner.Runner) string {
	if gone, why := r.ProcessesGone(); !gone {
		return why
	}
	_, why := h.unreleasedOf(h.volumes.Publications(r.ID()))
	return cmp.Or(why, "what it used is given back")
}

// lostRecord names an alloc whose record is lost by what its shim keeps of it, and by what the node holds for it.
func (h *Holdings) lostRecord(id ids.Alloc, s shim.Held) node.Orphan {
	l := h.left(id)
	o := node.Orphan{
		Alloc:      id,
		Reason:     unrecordedReason,
		Since:      cmp.Or(l.since, s.Since).UTC(),
		Processes:  l.processes != "",
		Awaits:     l.awaits(),
		RecordLost: true,
	}
	for _, v := range h.volumes.HeldBy(id) {
		o.Volumes = append(o.Volumes, string(cmp.Or(v.Volume.ID, ids.Volume(v.ExternalID))))
	}
	var b alloc.Bundle
	if len(s.Bundle) == 0 || wire.Decode(s.Bundle, &b) != nil || b.Alloc == nil || b.Job == nil || b.Alloc.ID != id {
		return o // it is shown by its id
	}
	describe(&o, b)
	return o
}

func describe(o *node.Orphan, b alloc.Bundle) {
	o.Namespace, o.Job = b.Alloc.Namespace, b.Alloc.Job
	o.Group, o.Name = b.Alloc.TaskGroup, b.Alloc.Name
	o.Volumes = b.CSIVolumes()
	o.Plugin, o.Plugins = b.RunsPlugin(), b.Plugins()
}
