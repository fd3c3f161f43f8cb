package diff

import (
	"cmp"
	"slices"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// update brings the allocs that run to the job's present version: at once where their processes can stay, and rolling
// by max_parallel where they are replaced. An alloc counts against max_parallel from its placement until it is healthy;
// allocs that are missing count too. One that is not healthy, whether it still runs, is replaced later or never, stops
// the update: what does not work takes the place of nothing more that does.
func (in *Input) update(kept []*alloc.Alloc, r *Result) {
	var old []*alloc.Alloc
	unsettled := len(r.Place) + len(r.Later) + len(r.Spent)
	all := false
	for _, a := range kept {
		change := Same
		if a.JobVersion != in.Job.Version {
			change = max(in.Change(a), InPlace)
		}
		switch change {
		case Destructive:
			old = append(old, a)
			all = all || in.SharedUse(a)
			continue
		case InPlace:
			r.InPlace = append(r.InPlace, a)
			r.Changes.InPlaceUpdate++
		default:
			r.Changes.Ignore++
		}
		if !a.Healthy() {
			unsettled++
			r.halt(a)
		}
	}
	if len(old) == 0 {
		return
	}
	budget := len(old)
	switch u := in.Group.Update; {
	case in.hold != "":
		budget = 0
	case u == nil || u.MaxParallel <= 0 || all:
	case r.halted() != nil:
		budget = 0
	default:
		budget = min(max(u.MaxParallel-unsettled-in.leaving(), 0), len(old))
	}
	// What does not work, or is not healthy yet, is replaced before what does.
	slices.SortStableFunc(old, func(a, b *alloc.Alloc) int {
		return cmp.Or(compareBool(works(a), works(b)), compareBool(a.Healthy(), b.Healthy()), a.Index-b.Index)
	})
	for _, a := range old[:budget] {
		r.Changes.DestructiveUpdate++
		if in.stopFirst() {
			r.Stop = append(r.Stop, Stop{a, WhyUpdated, false})
			r.Leaving = true
			continue
		}
		p := Place{
			Index:    a.Index,
			Previous: a,
			Ends:     WhyUpdated,
			Update:   true,
			Together: all,
		}
		if job.OnEveryNode(in.Job.Type) {
			p.Node = a.Node
		}
		r.Place = append(r.Place, p)
	}
	if budget < len(old) {
		r.Rolling = true
		r.Changes.Ignore += uint64(len(old) - budget)
	}
}

// halt remembers the first alloc that keeps an update from going on because it is not healthy.
func (r *Result) halt(a *alloc.Alloc) {
	if r.Halted == nil && a.Unhealthy() {
		r.Halted = a
	}
}

// halted is halt for the allocs that have ended, too.
func (r *Result) halted() *alloc.Alloc {
	for _, l := range r.Later {
		r.halt(l.Alloc)
	}
	for _, a := range r.Spent {
		r.halt(a)
	}
	return r.Halted
}

func works(a *alloc.Alloc) bool { return a.ClientStatus == alloc.ClientRunning && !a.Unhealthy() }

// leaving counts allocs of a stop-first group whose successor is still to come.
func (in *Input) leaving() int {
	if !in.stopFirst() {
		return 0
	}
	n := 0
	for _, a := range in.Allocs {
		if a.ServerTerminal() && !a.ClientTerminal() && !in.Down(a.Node) {
			n++
		}
	}
	return n
}
