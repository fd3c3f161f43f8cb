package diff

import (
	"slices"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// WhyReconnected is why one of two allocs ends when the node of the first comes back.
const WhyReconnected = "another alloc is kept in its place, now that a node has come back"

// wait sees to an index that has nothing live, and allocs on silent nodes. What replaced them and has ended since is
// what counts: it is tried again by its policy, and if it has done the work of a batch job nothing more is placed.
func (in *Input) wait(index int, s *slot, r *Result) {
	a := s.unknown[0]
	later := func(of []*alloc.Alloc) bool { return len(of) > 0 && of[0].CreateIndex > a.CreateIndex }
	giveUp := func(why string) {
		for _, a := range s.unknown {
			r.stop(a, why, true)
		}
		in.place(r, Place{Index: index, Previous: a})
	}
	switch {
	case a.Migrate:
		giveUp(WhyMigrating)
	case in.Change(a) == Destructive && in.hold == "":
		giveUp(WhyUpdated)
	case later(s.done) || !in.Group.Disconnect.ReplacesUnknown():
		r.Changes.Ignore++
	case later(s.ended):
		in.retry(index, s.ended[0], r)
	default:
		in.place(r, Place{Index: index, Previous: a})
	}
}

// silent counts the indexes whose only alloc is on a silent node and is not replaced. For as long as that lasts as many
// allocs stay that a smaller group has no index for: of those that run none is given away for one that may.
func (in *Input) silent(slots map[int]*slot) (n int) {
	for i, s := range slots {
		if i < in.Group.Count && len(s.live)+len(s.migrating) == 0 && len(s.unknown) > 0 &&
			!in.Group.Disconnect.ReplacesUnknown() && !s.unknown[0].Migrate && in.Change(s.unknown[0]) != Destructive {
			n++
		}
	}
	return n
}

// reunite puts the one first of several live allocs of an index that is kept, where one of them was on a silent node.
// One that runs comes before one that does not yet, unless the job keeps what it placed in the meantime.
func (in *Input) reunite(live []*alloc.Alloc) (back bool) {
	back = slices.ContainsFunc(live, returned)
	if !back || in.Group.Disconnect == nil {
		return back
	}
	slices.SortStableFunc(live, func(a, b *alloc.Alloc) int {
		if a.JobVersion != b.JobVersion {
			return 0
		}
		return in.keepsFirst(a, b)
	})
	return back
}

func returned(a *alloc.Alloc) bool { return a.Silence != nil && a.Silence.Back > 0 }

func (in *Input) keepsFirst(a, b *alloc.Alloc) int {
	original := -compareBool(returned(a), returned(b))
	running := -compareBool(a.ClientStatus == alloc.ClientRunning, b.ClientStatus == alloc.ClientRunning)
	switch in.Group.Disconnect.Reconcile {
	case job.KeepReplacement:
		return -original
	case job.KeepOriginal:
		return original
	case job.KeepLongest:
		if running == 0 && a.ClientStatus == alloc.ClientRunning {
			running = a.RunsSince().Compare(b.RunsSince())
		}
	default:
		if running == 0 {
			running = -compareScores(a.Score(), b.Score())
		}
	}
	if running != 0 {
		return running
	}
	return original
}

func compareScores(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
