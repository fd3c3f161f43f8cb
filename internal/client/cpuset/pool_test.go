package cpuset_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/base/ids"
	"berth/internal/client/cpuset"
	"berth/internal/model/alloc"
	"berth/internal/model/cores"
)

// pool is one of a node with four cores, some of which are kept back, and the list of what was shared.
func pool(kept ...uint16) (*cpuset.Pool, *[]cpuset.Shared) {
	var said []cpuset.Shared
	p := cpuset.New(cpuset.Config{
		Cores: func() ([]cores.Core, []uint16) {
			return []cores.Core{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}}, kept
		},
		Confine: func(s cpuset.Shared) error { said = append(said, s); return nil },
		Log:     slog.New(slog.DiscardHandler),
	})
	p.Begin()
	return p, &said
}

func with(id string, ids2 ...uint16) *alloc.Alloc {
	return &alloc.Alloc{ID: ids.Alloc(id),
		Resources: alloc.Resources{Tasks: map[string]alloc.TaskResources{"t": {Cores: ids2}, "side": {}}}}
}

func shared(said *[]cpuset.Shared) string { return (*said)[len(*said)-1].Cores }

func TestTheSharedPoolShrinksByWhatAllocsHoldAndGrowsBack(t *testing.T) {
	p, said := pool()
	if len(*said) != 0 {
		t.Fatalf("tasks are held although nobody has cores: %+v", *said)
	}
	silent := func(text string) { t.Errorf("it waits: %s", text) }
	for _, a := range []*alloc.Alloc{with("a", 0), with("b", 2, 3), with("b", 2, 3), with("none")} {
		if err := p.Hold(t.Context(), a, silent); err != nil {
			t.Fatal(err)
		}
	}
	last := (*said)[len(*said)-1]
	if last.Cores != "1" || !slices.Equal(last.Own["b"], []string{"2-3"}) || last.All != "0-3" {
		t.Errorf("what is shared: %+v", last)
	}
	if err := p.Release("a"); err != nil || shared(said) != "0-1" {
		t.Errorf("with a core given back %q is shared, %v", shared(said), err)
	}
	if err := p.Release("b"); err != nil || shared(said) != "" {
		t.Errorf("with all given back tasks are held to %q, %v", shared(said), err)
	}
}

func TestNoTaskRunsOnCoresThatAreKeptBack(t *testing.T) {
	p, said := pool(0)
	if len(*said) != 1 || shared(said) != "1-3" {
		t.Fatalf("at first %+v", *said)
	}
	if err := p.Hold(t.Context(), with("a", 3), func(string) {}); err != nil || shared(said) != "1-2" {
		t.Errorf("%q is shared, %v", shared(said), err)
	}
	if err := p.Release("a"); err != nil || shared(said) != "1-3" {
		t.Errorf("%q is shared, %v", shared(said), err)
	}
}

// Given an alloc that ends and holds a core yet, when another was given it, then that one waits and says for whom.
func TestACoreIsNobodyElsesBeforeItsHolderHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, said := pool()
		if err := p.Hold(t.Context(), with("older", 1), func(string) {}); err != nil {
			t.Fatal(err)
		}
		waits, done := "", make(chan error, 1)
		go func() {
			done <- p.Hold(t.Context(), with("newer", 1, 2), func(text string) { waits = text })
		}()
		synctest.Wait()
		if !strings.Contains(waits, "cores: 1-2, until allocation older has ended") {
			t.Errorf("it says %q", waits)
		}
		select {
		case err := <-done:
			t.Fatalf("it has the core: %v", err)
		default:
		}
		if err := p.Release("older"); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || shared(said) != "0,3" {
			t.Errorf("%q is shared, %v", shared(said), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Hold(ctx, with("third", 2), func(string) {}); err == nil {
			t.Error("a wait that was cut off has the core")
		}
	})
}
