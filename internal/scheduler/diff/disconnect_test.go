package diff

import (
	"slices"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// TestTheBetterPlaceIsKept: given two allocs of an index that both run, one of them on a node that was silent, then the
// one is kept whose node scored higher when it was placed; of equal ones, that which was there first.
func TestTheBetterPlaceIsKept(t *testing.T) {
	scored := func(id string, score float64, silence *alloc.Silence) *alloc.Alloc {
		return &alloc.Alloc{
			Node:         "n",
			Name:         id,
			ClientStatus: alloc.ClientRunning,
			Silence:      silence,
			Metrics:      &alloc.Metric{ScoreMetaData: []*alloc.NodeScore{{NodeID: "n", NormScore: score}}},
		}
	}
	for _, c := range []struct {
		first, second float64
		want          string
	}{{0.9, 0.1, "first"}, {0.1, 0.9, "second"}, {0.5, 0.5, "first"}} {
		in := &Input{Group: &job.TaskGroup{Disconnect: &job.Disconnect{Reconcile: job.KeepBestScore}}}
		live := []*alloc.Alloc{
			scored("second", c.second, nil),
			scored("first", c.first, &alloc.Silence{Back: 1}),
		}
		if back := in.reunite(live); !back || live[0].Name != c.want {
			t.Errorf("of scores %v and %v the %s is kept; a node came back: %v", c.first, c.second, live[0].Name, back)
		}
	}
}

// silentGroup is a group whose index 0 is on a silent node and is waited for, with more allocs, and what comes of it.
func silentGroup(count int, edit func(*alloc.Alloc), more ...*alloc.Alloc) (Result, *alloc.Alloc) {
	g := &job.TaskGroup{Name: "g", Count: count, Disconnect: &job.Disconnect{}}
	a := &alloc.Alloc{
		ID:           "unknown",
		TaskGroup:    "g",
		Node:         "silent",
		ClientStatus: alloc.ClientUnknown,
		Silence:      &alloc.Silence{Since: 1},
	}
	edit(a)
	in := Input{
		Job:    &job.Job{ID: "j", Type: job.TypeService, TaskGroups: []*job.TaskGroup{g}},
		Group:  g,
		Allocs: append([]*alloc.Alloc{a}, more...),
		Down:   func(ids.Node) bool { return false },
		Change: func(*alloc.Alloc) Change { return Same },
		Now:    time.Unix(100, 0),
	}
	return Reconcile(in), a
}

// TestAPersonsWishEndsTheWait: given an alloc of a silent node whose group waits for it, when a person wants it moved,
// then it is given up and another is placed for it; and without that wish neither happens.
func TestAPersonsWishEndsTheWait(t *testing.T) {
	r, _ := silentGroup(1, func(*alloc.Alloc) {})
	if len(r.Stop)+len(r.Place) != 0 || r.Changes.Ignore != 1 {
		t.Errorf("nobody wants it moved: it stops %v, places %v", r.Stop, r.Place)
	}
	r, a := silentGroup(1, func(a *alloc.Alloc) { a.Migrate = true })
	if len(r.Stop) != 1 || r.Stop[0] != (Stop{a, WhyMigrating, true}) || len(r.Place) != 1 || r.Place[0].Previous != a {
		t.Errorf("it is to be moved: it stops %v, places %v", r.Stop, r.Place)
	}
}

// TestASmallerGroupKeepsNothingForWhatIsMoved: given a group made smaller whose remaining index is on a silent node, then
// what runs beyond it stays; but not where a person wants the silent one moved, for which another is placed.
func TestASmallerGroupKeepsNothingForWhatIsMoved(t *testing.T) {
	runs := &alloc.Alloc{
		ID:           "runs",
		TaskGroup:    "g",
		Node:         "n",
		Index:        1,
		ClientStatus: alloc.ClientRunning,
	}
	r, _ := silentGroup(1, func(*alloc.Alloc) {}, runs)
	if len(r.Stop) != 0 {
		t.Errorf("nobody wants it moved: it stops %v", r.Stop)
	}
	r, a := silentGroup(1, func(a *alloc.Alloc) { a.Migrate = true }, runs)
	if len(r.Stop) != 2 || len(r.Place) != 1 || r.Place[0].Previous != a ||
		!slices.Contains(r.Stop, Stop{runs, WhySurplus, false}) {
		t.Errorf("it is to be moved: it stops %v, places %v", r.Stop, r.Place)
	}
}
