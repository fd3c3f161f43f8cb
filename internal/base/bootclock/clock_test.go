package bootclock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/internal/base/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is one whose time since boot a test sets.
type machine struct{ boot atomic.Int64 }

func (m *machine) now() time.Duration { return time.Duration(m.boot.Load()) }

// sleeps has it suspended for a time: Go's clock stands still.
func (m *machine) sleeps(d time.Duration) { m.boot.Add(int64(d)) }

// expect asks how a context stands.
func expect(t *testing.T, what string, ctx context.Context, want error) {
	t.Helper()
	if got := Err(ctx); !errors.Is(got, want) || (got == nil) != (want == nil) {
		t.Errorf("%s: %v, want %v (ended: %v, cause: %v)", what, got, want, ctx.Err(), context.Cause(ctx))
	}
}

func TestABudgetPassesWhileGoSClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		c := New(m.now)
		begun := time.Now()
		short, cancelShort := c.WithTimeout(t.Context(), time.Minute)
		defer cancelShort()
		long, cancelLong := c.WithTimeout(t.Context(), time.Hour)
		defer cancelLong()
		below, cancelBelow := context.WithCancel(short)
		defer cancelBelow()
		m.sleeps(time.Minute - 1)
		if n := c.Expire(); n != 0 {
			t.Errorf("%d budgets passed too early", n)
		}
		expect(t, "before its time", below, nil)
		m.sleeps(1)
		if n := c.Expire(); n != 1 {
			t.Errorf("%d budgets passed, not the one", n)
		}
		if below.Err() == nil {
			t.Error("what stands below the budget goes on")
		}
		expect(t, "what stands below the budget", below, context.DeadlineExceeded)
		expect(t, "the longer budget", long, nil)
		if !time.Now().Equal(begun) {
			t.Error("Go's clock went on: nothing is shown")
		}
	})
}

func TestWhoAsksKnowsBeforeTheAlarmRings(t *testing.T) {
	m := &machine{}
	c := New(m.now)
	outer, cancelOuter := c.WithTimeout(t.Context(), time.Minute)
	defer cancelOuter()
	inner, cancelInner := c.WithTimeout(outer, time.Hour)
	defer cancelInner()
	expect(t, "at first", inner, nil)
	m.sleeps(time.Minute)
	expect(t, "the budget that it stands under", inner, context.DeadlineExceeded)
	if inner.Err() == nil {
		t.Error("it goes on")
	}
}

func TestABudgetPassesByGoSClockToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []*Clock{nil, New((&machine{}).now)} {
			ctx, cancel := c.WithTimeout(t.Context(), time.Minute)
			<-ctx.Done()
			expect(t, "after its time", ctx, context.DeadlineExceeded)
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("it ended with %v", ctx.Err())
			}
			cancel()
		}
	})
}

func TestWhatIsWithdrawnHasNotPassed(t *testing.T) {
	m := &machine{}
	c := New(m.now)
	ctx, cancel := c.WithTimeout(t.Context(), time.Minute)
	cancel()
	m.sleeps(time.Hour)
	expect(t, "withdrawn in time", ctx, context.Canceled)

	g, gctx := lifecycle.NewGroup(t.Context())
	ctx, cancel = c.WithTimeout(gctx, 2*time.Hour)
	defer cancel()
	g.Go("sibling", func() error { return fmt.Errorf("its own call: %w", context.DeadlineExceeded) })
	if err := g.Wait(); err == nil {
		t.Error("the sibling did not fail")
	}
	expect(t, "beside one that ran out of its own time", ctx, context.Canceled)
}

func TestNothingIsLeftOfCallsThatEnded(t *testing.T) {
	m := &machine{}
	c := New(m.now)
	g, gctx := lifecycle.NewGroup(t.Context())
	for i := range 100 {
		g.Go("call", func() error {
			_, cancel := c.WithTimeout(gctx, time.Duration(i)*time.Minute)
			cancel()
			cancel()
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(c.open) != 0 {
		t.Errorf("%d budgets are left", len(c.open))
	}
	if m.sleeps(time.Hour); c.Expire() != 0 || c.rings != 0 {
		t.Errorf("something passes still, next at %s", c.rings)
	}
}

// TestARunningClockEndsWhatWaits is by the real clock and its alarm: nobody asks how the budget stands.
func TestARunningClockEndsWhatWaits(t *testing.T) {
	c := New(Now)
	before, cancelBefore := c.WithTimeout(t.Context(), time.Hour)
	defer cancelBefore()
	c.passesAt(before, 1)
	g, gctx := lifecycle.NewGroup(t.Context())
	g.Go("clock", func() error { return c.Run(gctx) })
	<-before.Done()
	expect(t, "begun before anybody ran the clock", before, context.DeadlineExceeded)

	late, cancelLate := c.WithTimeout(t.Context(), time.Hour)
	defer cancelLate()
	c.passesAt(late, Now()+time.Millisecond)
	<-late.Done()
	expect(t, "begun while it runs", late, context.DeadlineExceeded)
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	after, cancelAfter := c.WithTimeout(t.Context(), time.Hour)
	defer cancelAfter()
	c.passesAt(after, 1)
	expect(t, "begun after its end", after, context.DeadlineExceeded)
}

// passesAt has a budget pass at a time of this clock, and much later by Go's.
func (c *Clock) passesAt(ctx context.Context, at time.Duration) {
	l, _ := ctx.Value(limitKey{}).(*limit)
	c.remove(l)
	l.at = at
	c.add(l)
}
