package allocs_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/allocs"
	"berth/internal/client/suspects"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/wire"
)

// guarded is a node whose agent dies, and is started again with what its store remembers.
type guarded struct {
	t   *testing.T
	cfg allocs.Config
	dir string
	by  string
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	n := &guarded{t: t, by: "v1"}
	a := tuned(t, func(cfg *allocs.Config) { n.cfg = *cfg })
	n.dir = filepath.Dir(a.Dir())
	return n
}

// restored is what a new run of the agent makes of the store.
func (n *guarded) restored() *allocs.Allocs {
	n.t.Helper()
	loaded, err := n.cfg.Store.Load()
	if err != nil {
		n.t.Fatal(err)
	}
	n.cfg.Holdings = allocs.NewHoldings(allocs.NewTable(n.dir, loaded, n.cfg.Log), nil, nil)
	n.cfg.Holdings.Use(held{})
	n.cfg.Guard = suspects.New(suspects.Config{
		Store:  n.cfg.Store,
		Left:   loaded.Marks,
		By:     n.by,
		Runs:   suspects.Runs{Now: "now", Crashed: []string{"now"}},
		Window: time.Hour,
		Log:    n.cfg.Log,
	})
	a := allocs.New(n.cfg)
	a.Restore(lineage.Point{})
	return a
}

// crashes is how many crashes are counted against an alloc.
func (n *guarded) crashes(id ids.Alloc) int {
	n.t.Helper()
	loaded, err := n.cfg.Store.Load()
	if err != nil {
		n.t.Fatal(err)
	}
	return loaded.Marks[id].Crashes
}

// crashed is a run of the agent that dies as soon as it has taken up what it does.
func (n *guarded) crashed(took func(*allocs.Allocs) bool) {
	n.t.Helper()
	g, ctx := lifecycle.NewGroup(n.t.Context())
	a := n.restored()
	g.Go("allocs", func() error { return a.Run(ctx) })
	awaited(n.t, "the allocations to be taken up", func() bool { return took(a) })
	g.Go("crash", func() error { panic("killed") })
	if err := g.Wait(); !errors.As(err, new(*lifecycle.PanicError)) {
		n.t.Fatal(err)
	}
}

// twice is a node whose agent has died twice with two allocs, of which the first by its id is the guilty one.
func twice(t *testing.T) (n *guarded, guilty, other alloc.Bundle) {
	t.Helper()
	n = newGuarded(t)
	guilty, other = given(), given()
	if other.Alloc.ID < guilty.Alloc.ID {
		guilty, other = other, guilty
	}
	both := func(a *allocs.Allocs) bool {
		return taken(a, guilty.Alloc.ID) && taken(a, other.Alloc.ID) && n.crashes(other.Alloc.ID) > 0
	}
	n.crashed(func(a *allocs.Allocs) bool {
		if a.Runner(other.Alloc.ID) == nil {
			at := lineage.Point{Incarnation: "one", Mark: "m", Index: 1}
			set := &wire.AllocSet{At: at, Bundles: []alloc.Bundle{guilty, other}}
			if err := a.Apply(t.Context(), set); err != nil {
				t.Fatal(err)
			}
		}
		return both(a) && runs(a, guilty.Alloc.ID) && runs(a, other.Alloc.ID)
	})
	n.crashed(both)
	for _, b := range []alloc.Bundle{guilty, other} {
		if c := n.crashes(b.Alloc.ID); c != 2 {
			t.Fatalf("%d crashes are counted against one of two", c)
		}
	}
	return n, guilty, other
}

func taken(a *allocs.Allocs, id ids.Alloc) bool {
	r := a.Runner(id)
	return r != nil && r.Barred() == ""
}

func runs(a *allocs.Allocs, id ids.Alloc) bool {
	return a.Runner(id).Report().ClientStatus == alloc.ClientRunning
}

// Given an alloc of which the agent dies each time, then with its third crash in a row it is not taken up any more, and
// says why and what helps, while another, that was suspected beside it, runs. Nothing of it passes for ended. Another
// version of the agent takes it up.
func TestAnAllocOfWhichTheAgentDiesIsNotTakenUp(t *testing.T) {
	n, guilty, other := twice(t)
	id := guilty.Alloc.ID
	n.crashed(func(a *allocs.Allocs) bool { return taken(a, id) })
	if mine, others := n.crashes(id), n.crashes(other.Alloc.ID); mine != 3 || others != 2 {
		t.Fatalf("%d crashes are counted against the guilty one, and %d against the other", mine, others)
	}
	for range 2 { // an end in order changes nothing of that
		a := n.restored()
		stop := begin(t, a)
		awaited(t, "the other to be taken up", func() bool { return taken(a, other.Alloc.ID) })
		r := a.Runner(id)
		report := r.Report()
		wayOut := "berth alloc restart " + ids.Short(id)
		for _, part := range []string{"last 3 runs of the agent crashed", wayOut, "another version"} {
			if !strings.Contains(report.ClientDescription, part) {
				t.Errorf("it does not say %q: %s", part, report.ClientDescription)
			}
		}
		said := 0
		for _, e := range report.TaskStates["web"].Events {
			if e.Type == alloc.EventNotTakenUp {
				said++
			}
		}
		if said != 1 || report.ClientStatus != alloc.ClientRunning {
			t.Errorf("%d events say it, and its status is %s", said, report.ClientStatus)
		}
		if gone, _ := a.ProcessesGone(id); gone || a.ProcessesIdle(id) || !a.Known(id) || !a.Any() {
			t.Error("it passes for ended")
		}
		if err := r.Usable("signal"); !fault.Has(err, fault.Conflict) {
			t.Errorf("it can be used: %v", err)
		}
		stop()
	}

	n.by = "v2"
	a := n.restored()
	if !taken(a, id) {
		t.Errorf("another version of the agent does not take it up: %s", a.Runner(id).Barred())
	}
	if n.crashes(id) != 1 {
		t.Errorf("%d crashes are counted by the other version", n.crashes(id))
	}
}

// Given an alloc that is not taken up, when a person says so, then it is, and nothing is counted against it but this
// run of the agent.
func TestAPersonHasAnAllocTakenUp(t *testing.T) {
	n, guilty, _ := twice(t)
	id := guilty.Alloc.ID
	n.crashed(func(a *allocs.Allocs) bool { return taken(a, id) })
	a := n.restored()
	stop := begin(t, a)
	if took, err := a.TakeUp(t.Context(), id); !took || err != nil || !taken(a, id) {
		t.Errorf("taken up: %v, %v", took, err)
	}
	if c := n.crashes(id); c != 1 {
		t.Errorf("%d crashes are counted", c)
	}
	if took, err := a.TakeUp(t.Context(), id); took || err != nil {
		t.Errorf("taken up twice: %v, %v", took, err)
	}
	stop()
	if c := n.crashes(id); c != 0 {
		t.Errorf("%d crashes are counted after an end in order", c)
	}
}
