package lifecycle_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/lifecycle"
)

var errFirst, errSecond = errors.New("first"), errors.New("second")

func TestWaitJoinsEveryChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := lifecycle.NewGroup(t.Context())
		ended := 0
		g.Go("slow", func() error { time.Sleep(time.Minute); ended++; return nil })
		g.Go("quick", func() error { return nil })
		if err := g.Wait(); err != nil || ended != 1 {
			t.Errorf("Wait returned %v with %d slow children ended", err, ended)
		}
	})
}

func TestTheFirstErrorEndsTheSiblingsAndCarriesItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := lifecycle.NewGroup(t.Context())
		g.Go("waiter", func() error { <-ctx.Done(); return ctx.Err() })
		g.Go("second", func() error { <-ctx.Done(); return errSecond })
		g.Go("first", func() error { time.Sleep(time.Second); return errFirst })
		err := g.Wait()
		if !errors.Is(err, errFirst) || errors.Is(err, errSecond) || !strings.HasPrefix(err.Error(), "first: ") {
			t.Errorf("Wait returned %v", err)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, errFirst) {
			t.Errorf("the cause of the end is %v", cause)
		}
	})
}

func TestAnEndFromOutsideIsNoError(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	g, ctx := lifecycle.NewGroup(parent)
	g.Go("waiter", func() error { <-ctx.Done(); return ctx.Err() })
	cancel()
	if err := g.Wait(); err != nil {
		t.Errorf("the parent's end became %v", err)
	}
}

func TestACanceledCallOfOneChildIsAnErrorWhileTheGroupLives(t *testing.T) {
	g, _ := lifecycle.NewGroup(t.Context())
	g.Go("child", func() error { return context.Canceled })
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("the error was swallowed: %v", err)
	}
}

func TestStopEndsTheChildrenWithoutError(t *testing.T) {
	g, ctx := lifecycle.NewGroup(t.Context())
	g.Go("waiter", func() error { <-ctx.Done(); return context.Cause(ctx) })
	g.Stop()
	<-g.Done()
	if err := g.Wait(); err != nil {
		t.Errorf("Stop became %v", err)
	}
}

func TestAPanicBecomesAnErrorWithItsStack(t *testing.T) {
	g, ctx := lifecycle.NewGroup(t.Context())
	g.Go("sibling", func() error { <-ctx.Done(); return nil })
	g.Go("faulty", func() error { panic("impossible") })
	err := g.Wait()
	var p *lifecycle.PanicError
	if !errors.As(err, &p) || p.Value != "impossible" {
		t.Fatalf("Wait returned %v", err)
	}
	if !strings.HasPrefix(err.Error(), "faulty: panic: impossible") ||
		!strings.Contains(string(p.Stack), "group_test.go") {
		t.Errorf("the error does not lead to the place: %v", err)
	}
}

func TestAClosedGroupStartsNothing(t *testing.T) {
	g, ctx := lifecycle.NewGroup(t.Context())
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var ran atomic.Bool
	if g.Go("late", func() error { ran.Store(true); return nil }) {
		t.Error("a closed group took a child")
	}
	if ran.Load() || ctx.Err() == nil {
		t.Error("a closed group ran a child or left its context alive")
	}
}

func TestWaitNeverReturnsBeforeAChildThatWasAccepted(t *testing.T) {
	for range 300 {
		g, _ := lifecycle.NewGroup(t.Context())
		var begun, ended atomic.Int32
		outer, _ := lifecycle.NewGroup(t.Context())
		outer.Go("starter", func() error {
			for g.Go("child", func() error { begun.Add(1); time.Sleep(time.Microsecond); ended.Add(1); return nil }) {
			}
			return nil
		})
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if b, e := begun.Load(), ended.Load(); b != e {
			t.Fatalf("Wait returned while %d of %d children ran", b-e, b)
		}
		if err := outer.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChildrenMayStartChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := lifecycle.NewGroup(t.Context())
		depth := 0
		var child func() error
		child = func() error {
			time.Sleep(time.Second)
			if depth++; depth < 5 && !g.Go("child", child) {
				t.Error("a living group refused a child")
			}
			return nil
		}
		g.Go("child", child)
		if err := g.Wait(); err != nil || depth != 5 {
			t.Errorf("Wait returned %v at depth %d", err, depth)
		}
	})
}

func TestRunAllEndsTheRestWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joined := false
		err := lifecycle.RunAll(t.Context(), map[string]func(context.Context) error{
			"server": func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				joined = true
				return nil
			},
			"client": func(context.Context) error { return errFirst },
		})
		if !errors.Is(err, errFirst) || !strings.HasPrefix(err.Error(), "client: ") || !joined {
			t.Errorf("RunAll returned %v, joined %v", err, joined)
		}
	})
}

func TestAnIsolatedFaultDoesNotEndItsSiblings(t *testing.T) {
	var heard []error
	tell := func(err error) { heard = append(heard, err) }
	for _, fn := range []func() error{func() error {
		return errFirst
	}, func() error { panic("impossible") }, func() error { return nil }} {
		if err := lifecycle.Isolated("volume db", fn, tell)(); err != nil {
			t.Errorf("an isolated fault came through: %v", err)
		}
	}
	if len(heard) != 2 || !errors.Is(heard[0], errFirst) ||
		!strings.HasPrefix(heard[1].Error(), "volume db: panic: impossible") {
		t.Errorf("heard %v", heard)
	}
}

func TestASignalWakesAllWhoWaitAndNoneWhoCameLater(t *testing.T) {
	var s lifecycle.Signal
	s.Notify() // nobody waits: nothing to do
	before, same := s.C(), s.C()
	s.Notify()
	for _, c := range []<-chan struct{}{before, same} {
		select {
		case <-c:
		default:
			t.Error("a waiter was not woken")
		}
	}
	select {
	case <-s.C():
		t.Error("an old signal woke a new waiter")
	default:
	}
}
