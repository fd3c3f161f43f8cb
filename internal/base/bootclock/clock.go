// Package bootclock owns the clock that durations are counted in which another machine counts too: CLOCK_BOOTTIME, the
// time since the machine was booted, suspends included. Go's timers and time.Since stand still in a suspend: by them a
// machine that woke up has all the time left that it had before, while the others gave up waiting long ago.
package bootclock

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
)

// Now reads CLOCK_BOOTTIME. It never goes back, and no two processes on one boot of a machine disagree about it.
func Now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // fails only for a clock that does not exist
	return time.Duration(t.Nano())
}

// Clock keeps the budgets that are under way, all with one alarm. It is safe for concurrent use. A nil Clock counts by
// Go's clock alone.
type Clock struct {
	now   func() time.Duration
	mu    sync.Mutex
	open  map[*limit]struct{}
	alarm *Alarm        // nil: nobody runs the clock
	rings time.Duration // when the alarm does; 0: never
}

// limit is one budget.
type limit struct {
	clock  *Clock
	at     time.Duration // when it has passed
	cancel context.CancelCauseFunc
	outer  *limit // that it stands under
}

// limitKey is where a context has its innermost limit.
type limitKey struct{}

// New returns a clock; now is Now but in tests. Until somebody runs it, Err alone tells what has passed: nothing that
// waits is ended.
func New(now func() time.Duration) *Clock { return &Clock{now: now, open: map[*limit]struct{}{}} }

// WithTimeout is context.WithTimeout that counts a suspend of the machine too: the context ends when d has passed by
// this clock or by Go's, whichever is first. By this one its cause is context.DeadlineExceeded while ctx.Err, which
// only Go's clock can set, is context.Canceled: ask Err. The caller must call the function that it returns.
func (c *Clock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if c == nil {
		return context.WithTimeout(ctx, d)
	}
	timed, stop := context.WithTimeout(ctx, d)
	bound, cancel := context.WithCancelCause(timed)
	l := &limit{clock: c, at: c.now() + d, cancel: cancel}
	l.outer, _ = ctx.Value(limitKey{}).(*limit)
	c.add(l)
	return context.WithValue(bound, limitKey{}, l), func() {
		c.remove(l)
		cancel(nil)
		stop()
	}
}

// Err says how ctx stands: nil while it goes on, context.DeadlineExceeded if a budget of it has passed by any clock,
// and otherwise why it ended. It reads the clock: after a suspend it knows before any alarm has rung. Whoever sends
// something within a budget, or believes an answer to it, asks here first.
func Err(ctx context.Context) error {
	l, _ := ctx.Value(limitKey{}).(*limit)
	for ; l != nil; l = l.outer {
		if l.at <= l.clock.now() {
			l.cancel(context.DeadlineExceeded)
		}
	}
	// Not what wraps it: a sibling of ours in a group that ran out of its time is another's budget.
	if context.Cause(ctx) == context.DeadlineExceeded { //nolint:errorlint // see above
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// Run ends budgets as they pass, until ctx ends.
func (c *Clock) Run(ctx context.Context) error {
	alarm, err := NewAlarm()
	if err != nil {
		return err
	}
	c.runBy(alarm)
	defer c.runBy(nil)
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("boot clock", func() error {
		for {
			c.Expire()
			if err := alarm.Wait(); err != nil {
				if errors.Is(err, os.ErrClosed) {
					return nil
				}
				return fault.Wrap(err, fault.Internal, "wait for", "the alarm of the time since boot")
			}
		}
	})
	g.Go("end of the boot clock", func() error {
		<-gctx.Done()
		return alarm.Close()
	})
	return g.Wait()
}

// Expire ends the budgets that have passed, and says how many.
func (c *Clock) Expire() int {
	passed := c.expire(c.now())
	for _, l := range passed {
		l.cancel(context.DeadlineExceeded)
	}
	return len(passed)
}

// expire takes out what has passed at a time, and sets the alarm to what passes next.
func (c *Clock) expire(now time.Duration) []*limit {
	c.mu.Lock()
	defer c.mu.Unlock()
	var passed []*limit
	c.rings = 0
	for l := range c.open {
		switch {
		case l.at <= now:
			delete(c.open, l)
			passed = append(passed, l)
		case c.rings == 0 || l.at < c.rings:
			c.rings = l.at
		}
	}
	c.set()
	return passed
}

func (c *Clock) add(l *limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[l] = struct{}{}
	if c.rings == 0 || l.at < c.rings {
		c.rings = l.at
		c.set()
	}
}

// remove takes a limit out. The alarm may ring for it in vain: that costs less than to set it again for each call.
func (c *Clock) remove(l *limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, l)
}

func (c *Clock) runBy(a *Alarm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarm = a
}

// set sets the alarm. The caller holds the lock.
func (c *Clock) set() {
	if c.alarm != nil {
		c.alarm.Set(c.rings)
	}
}
