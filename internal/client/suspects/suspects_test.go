package suspects_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/localstate"
	"berth/internal/client/suspects"
)

// store counts the steps in which marks are written and dropped.
type store struct {
	mu    sync.Mutex
	marks map[ids.Alloc]localstate.Mark
	steps int
	err   error // of every step
}

// counts are the marks that there are, and the steps in which they came and went.
func (s *store) counts() (marks, steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.marks), s.steps
}

// PutMarks implements suspects.Store.
func (s *store) PutMarks(marks map[ids.Alloc]localstate.Mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	if s.err != nil {
		return s.err
	}
	maps.Copy(s.marks, marks)
	return nil
}

// DropMarks implements suspects.Store.
func (s *store) DropMarks(all []ids.Alloc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	if s.err != nil {
		return s.err
	}
	for _, id := range all {
		delete(s.marks, id)
	}
	return nil
}

func newStore() *store { return &store{marks: map[ids.Alloc]localstate.Mark{}} }

// guard is that of a new run of the agent, after a crash of the last.
func (s *store) guard(by string) *suspects.Guard {
	return s.after(by, suspects.Runs{Now: "now", Crashed: []string{"now"}})
}

func (s *store) after(by string, runs suspects.Runs) *suspects.Guard {
	return suspects.New(suspects.Config{
		Store: s,
		Left:  maps.Clone(s.marks),
		By:    by,
		Runs:  runs,
		Log:   slog.New(slog.DiscardHandler),
	})
}

func (s *store) begin(t *testing.T, g *suspects.Guard, all ...ids.Alloc) {
	t.Helper()
	if err := g.Begin(all, s.PutMarks); err != nil {
		t.Fatal(err)
	}
}

// Given a thousand allocs that are begun one after another, then their marks go when the agent has lived on for the
// window, not before, and in few steps.
func TestMarksGoAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		g := s.guard("v1")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		for i := range 1000 {
			s.begin(t, g, ids.Alloc(fmt.Sprint(i)))
			time.Sleep(time.Millisecond)
		}
		_, begun := s.counts()
		time.Sleep(suspects.DefaultWindow - 2*time.Second)
		synctest.Wait()
		if marks, steps := s.counts(); marks != 1000 || steps != begun {
			t.Errorf("too early: %d marks are left, after %d steps", marks, steps-begun)
		}
		time.Sleep(suspects.DefaultWindow / 2)
		synctest.Wait()
		if marks, steps := s.counts(); marks != 0 || steps-begun > 2 {
			t.Errorf("%d marks are left, after %d steps", marks, steps-begun)
		}
		if !g.Settled(ctx) {
			t.Error("the guard waits for something")
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// fails has every step of the store fail from now on, or no longer.
func (s *store) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Given a store that writes nothing, as on a full disk, then who begins an alloc hears of that, and the alloc counts as
// one that was not begun.
func TestWhatCannotBeMarkedIsNotBegun(t *testing.T) {
	s := newStore()
	s.begin(t, s.guard("v1"), "a") // and the agent dies of it
	g := s.guard("v1")
	full := errors.New("the disk is full")
	s.fails(full)
	if err := g.Begin([]ids.Alloc{"a", "b"}, s.PutMarks); !errors.Is(err, full) {
		t.Errorf("it says %v", err)
	}
	if g.Crashes("a") != 1 || !g.Suspect("a") || g.Crashes("b") != 0 {
		t.Errorf("of a died %d runs, of b %d", g.Crashes("a"), g.Crashes("b"))
	}
}

// Given marks that the store cannot drop when the agent has lived on, then whoever asks for that hears of it, they
// count on, and they go within seconds of when it can.
func TestMarksThatCannotBeDroppedGoLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		g := s.guard("v1")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		s.begin(t, g, "a")
		full := errors.New("the disk is full")
		s.fails(full)
		time.Sleep(2 * suspects.DefaultWindow)
		if err := g.Forgive("a"); !errors.Is(err, full) || g.Crashes("a") != 1 {
			t.Errorf("%v; %d runs died of it", err, g.Crashes("a"))
		}
		s.fails(nil)
		time.Sleep(suspects.DefaultWindow)
		synctest.Wait()
		if marks, _ := s.counts(); marks != 0 || g.Crashes("a") != 0 {
			t.Errorf("%d marks are left, of %d crashes", marks, g.Crashes("a"))
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// Given marks, when the agent ends in order, then none is left that it has made, and what begins later makes none; when
// it ends by a panic, they stay.
func TestAnEndInOrderIsNoCrash(t *testing.T) {
	for name, c := range map[string]struct {
		cause error
		left  int
	}{
		"in order":   {nil, 0},
		"by a panic": {fmt.Errorf("allocs: %w", &lifecycle.PanicError{Value: "x"}), 1},
	} {
		s := newStore()
		s.marks["earlier"] = localstate.Mark{Crashes: 1, By: "v1"}
		g := s.guard("v1")
		s.begin(t, g, "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(c.cause)
		if err := g.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if _, left := s.marks["a"]; left != (c.left > 0) {
			t.Errorf("%s: the marks are %v", name, s.marks)
		}
		if s.marks["earlier"].Crashes != 1 {
			t.Errorf("%s: what was not begun has lost its mark: %v", name, s.marks)
		}
		if s.begin(t, g, "late"); c.left == 0 && s.marks["late"].Crashes != 0 {
			t.Errorf("%s: one is marked by an agent that has ended: %v", name, s.marks)
		}
	}
}

// Given allocs of which the agent dies again and again, then those beside the guilty one are never barred, and it is
// after some runs, however many are suspected.
func TestTheGuiltyOneIsFound(t *testing.T) {
	for _, n := range []int{1, 2, 8, 9, 200} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			var all []ids.Alloc
			for i := range n {
				all = append(all, ids.Alloc(fmt.Sprintf("%03d", i)))
			}
			guilty := all[n/2]
			runs := 0
			for ; !s.guard("v1").Barred(guilty) && runs < 10; runs++ {
				playRun(t, s, all, guilty)
			}
			for _, id := range all {
				if barred := s.guard("v1").Barred(id); barred != (id == guilty) {
					t.Errorf("of %d, after %d runs, %s is barred: %v, by %v", n, runs, id, barred, s.marks[id])
				}
			}
			if want := 3; n <= 8 && runs != want || runs > 5 {
				t.Errorf("of %d it was found after %d runs", n, runs)
			}
			if s.guard("v2").Crashes(guilty) != 0 {
				t.Error("another version of the agent does not try it")
			}
		})
	}
}

// playRun is a run of the agent that dies shortly after the guilty alloc is begun.
func playRun(t *testing.T, s *store, all []ids.Alloc, guilty ids.Alloc) {
	t.Helper()
	g := s.guard("v1")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	defer func() {
		cancel(&lifecycle.PanicError{Value: "killed"})
		<-done
	}()
	var suspected, others []ids.Alloc
	for _, id := range all {
		if g.Crashes(id) > 0 {
			suspected = append(suspected, id)
		} else {
			others = append(others, id)
		}
	}
	together, turns := g.Turns(suspected)
	for _, group := range [][]ids.Alloc{others, together} {
		s.begin(t, g, group...)
		if time.Sleep(time.Second); slices.Contains(group, guilty) {
			return
		}
	}
	for _, group := range turns {
		g.Settled(ctx)
		s.begin(t, g, group...)
		if time.Sleep(20 * time.Second); slices.Contains(group, guilty) {
			return
		}
	}
}

// Given an alloc that was begun alone, when another begins beside it, then its mark says no more that it was alone.
func TestWhoIsJoinedIsNotAlone(t *testing.T) {
	s := newStore()
	g := s.guard("v1")
	s.begin(t, g, "a")
	if m := s.marks["a"]; !m.Alone || m.Crashes != 1 {
		t.Errorf("begun alone: %+v", m)
	}
	s.begin(t, g, "b")
	if s.marks["a"].Alone || s.marks["b"].Alone {
		t.Errorf("begun beside each other: %v", s.marks)
	}
	if err := g.Forgive("a"); err != nil {
		t.Fatal(err)
	}
	if _, left := s.marks["a"]; left || g.Crashes("a") != 0 {
		t.Errorf("forgiven: %v", s.marks)
	}
}

// Given crashes, and runs that somebody ended from outside between them, then only the crashes are counted, and what
// was barred stays so; a run that is not recorded marks nothing.
func TestOnlyCrashesAreCounted(t *testing.T) {
	s := newStore()
	var last string
	var all []string
	run := func(name string, crashed bool) *suspects.Guard {
		if crashed {
			all = append(all, last)
		}
		last = name
		return s.after("v1", suspects.Runs{Now: name, Crashed: all})
	}
	begin := func(g *suspects.Guard, crashes int) {
		t.Helper()
		if got := g.Crashes("a"); got != crashes || g.Barred("a") {
			t.Fatalf("%d crashes, want %d; barred: %v", got, crashes, g.Barred("a"))
		}
		s.begin(t, g, "a")
	}
	begin(run("1", false), 0)
	for n := range 5 {
		run("ends before it takes anything up", false)
		begin(run(fmt.Sprintf("1, killed %d", n), false), 0)
	}
	begin(run("2", true), 1)
	begin(run("2, killed", false), 1)
	begin(run("3", true), 2)
	begin(run("3, killed", false), 2)
	for _, next := range []struct {
		name    string
		crashed bool
	}{{"4", true}, {"4, killed", false}, {"5", true}} {
		if g := run(next.name, next.crashed); !g.Barred("a") {
			t.Fatalf("run %s: %d crashes, and it is not barred", next.name, g.Crashes("a"))
		}
	}
	s.marks = map[ids.Alloc]localstate.Mark{}
	g := s.after("v1", suspects.Runs{Crashed: all})
	s.begin(t, g, "a")
	if marks, _ := s.counts(); marks != 0 {
		t.Errorf("a run that is not recorded has made %d marks", marks)
	}
}
