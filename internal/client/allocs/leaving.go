package allocs

import (
	"context"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/reconcile"
	"berth/internal/client/servers"
	"berth/internal/model/lineage"
	"berth/internal/wire"
)

// A set that would end many allocs only by leaving them out is believed when the servers have confirmed each of them
// once more after a while.
const (
	manyAtOnce = 10
	confirmIn  = 30 * time.Second
)

// missing marks the allocs that the set says, or leaves out, as gone: each is asked about by id before anything of it
// ends.
func (a *Allocs) missing(set *wire.AllocSet, named map[ids.Alloc]bool) {
	out := slices.Clone(set.Gone)
	if set.Full {
		for _, r := range a.Runners() {
			if !named[r.ID()] {
				out = append(out, r.ID())
			}
		}
		for _, id := range a.leftovers() {
			if !named[id] {
				out = append(out, id)
			}
		}
	}
	alive := 0
	for _, id := range out {
		if r := a.Runner(id); r != nil && !r.Released() && r.Orphan() == nil {
			alive++
		}
	}
	var notBefore time.Time
	if alive > manyAtOnce {
		notBefore = time.Now().Round(0).Add(a.cfg.ConfirmRemovals)
		a.log.Warn("the servers' state leaves out many allocations that run here; none is ended before it was "+
			"confirmed again",
			"allocations", alive, "after", a.cfg.ConfirmRemovals)
	}
	a.mu.Lock()
	for _, id := range out {
		if _, known := a.gone[id]; !known {
			a.gone[id] = notBefore
		}
	}
	a.mu.Unlock()
	for _, id := range out {
		a.leaving.Mark(id)
	}
}

// leave decides about an alloc that the servers left out: one that their state knew and removed is stopped, released,
// and then its directory and its record go; one that it never knew is an orphan and is kept.
func (a *Allocs) leave(ctx context.Context, id ids.Alloc) (reconcile.Result, error) {
	r := a.Runner(id)
	if r == nil {
		return a.leaveUnrecorded(ctx, id)
	}
	if r.Orphan() != nil && r.Released() && r.Stopped() {
		return reconcile.Done(), a.destroy(id) // a person has ended it
	}
	a.mu.Lock()
	notBefore, marked := a.gone[id]
	a.mu.Unlock()
	if !marked {
		return reconcile.Done(), nil
	}
	if rest := time.Until(notBefore); rest > 0 {
		return reconcile.Again(rest, "many allocations would end at once"), nil
	}
	removed, orphan, err := a.known(ctx, id, r.Received())
	if err != nil {
		return reconcile.Done(), err
	}
	switch Leave(removed, orphan, r.Released()) {
	case Orphaned:
		a.dropMark(id)
		return reconcile.Done(), a.keep(r, unknownReason)
	case Stays:
		a.dropMark(id)
		return reconcile.Done(), nil
	case Stops: // its runner marks the key again when it has released everything
		return reconcile.Done(), r.Stop("The servers have removed the allocation", true)
	case Destroyed:
	}
	return reconcile.Done(), a.destroy(id)
}

// known asks the servers what they know of an alloc: that they removed it, or that nothing shows that they did.
func (a *Allocs) known(ctx context.Context, id ids.Alloc, received lineage.Point) (removed, orphan bool, err error) {
	cctx, cancel := context.WithTimeout(ctx, servers.CallTimeout)
	defer cancel()
	reply, err := wire.NodeAllocsKnown.Call(cctx, a.cfg.Link.Conn(), &wire.NodeAllocsKnownRequest{
		NodeIdentity: a.cfg.Link.Identity(),
		Allocs:       []wire.ReceivedAlloc{{Alloc: id, Received: received}},
	})
	if err != nil {
		return false, false, err
	}
	return slices.Contains(reply.Removed, id), slices.Contains(reply.Orphans, id), nil
}

// dropMark forgets that an alloc was left out.
func (a *Allocs) dropMark(id ids.Alloc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.gone, id)
}
