// Package reconcile owns the loop that every keeper turns: keyed work, repeated until the worker says that nothing is
// left to do. It decides when a key is worked on again; what the work is, and whether it is done, is the worker's word.
// Every package above base may import it.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
)

// Defaults of Config.
const (
	DefaultParallel = 4
	DefaultMinPause = 500 * time.Millisecond
	DefaultMaxPause = 60 * time.Second
)

// Config says how a loop behaves. Zero fields take the defaults.
type Config struct {
	Name     string        // appears in errors and logs
	Parallel int           // how many keys are worked on at once, in each group
	MinPause time.Duration // pause after the first failure; doubles with each further one
	MaxPause time.Duration // where the doubling stops
	Log      *slog.Logger  // receives each failure with another reason, and its end; nil: it shows in Pending alone
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "reconcile"
	}
	if c.Parallel <= 0 {
		c.Parallel = DefaultParallel
	}
	if c.MinPause <= 0 {
		c.MinPause = DefaultMinPause
	}
	if c.MaxPause <= 0 {
		c.MaxPause = DefaultMaxPause
	}
	c.MaxPause = max(c.MaxPause, c.MinPause)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Worker makes one pass over a key. It reads the facts anew at each call, because a key carries no event. An error is a
// failure: the key is tried again after a pause. The context ends with the loop.
type Worker[K comparable] func(ctx context.Context, key K) (Result, error)

// Result is what a pass without error came to. The zero value is Done.
type Result struct {
	again bool
	after time.Duration
	why   string
}

// Done says that the key needs nothing more until somebody marks it.
func Done() Result { return Result{} }

// Again asks for another pass after d, or at once when d is zero. It is not a failure: the count of attempts starts
// anew. The reason is what Pending shows to people who ask what the loop waits for.
func Again(d time.Duration, why string) Result { return Result{again: true, after: d, why: why} }

// Waiting tells about one key that is not done.
type Waiting[K comparable] struct {
	Key      K
	Running  bool      // a pass is under way
	Attempts int       // failures in a row
	Err      error     // of the last pass; nil when it did not fail
	Why      string    // the worker's reason when it asked for another pass
	NextTry  time.Time // zero when the key is due or running
}

// Loop works on keys: never twice at once on the same one, never on more than Config.Parallel of a group, and after a
// failure not before a pause that doubles, spread by jitter, up to a ceiling. Its methods may be called from every
// goroutine.
type Loop[K comparable] struct {
	cfg  Config
	work Worker[K]

	mu      sync.Mutex
	groupOf func(K) string
	width   func(group string) int // 0: Config.Parallel
	entries map[K]*entry[K]
	groups  map[string]*group[K] // those with keys that are due or running
	timed   timeline[K]          // those that wait for a time
	running bool                 // a Run is active
	wake    lifecycle.Signal     // something became due, a pass ended, the set changed
}

// New returns a loop that does nothing before Run.
func New[K comparable](cfg Config, work Worker[K]) *Loop[K] {
	return &Loop[K]{
		cfg:     cfg.withDefaults(),
		work:    work,
		groupOf: func(K) string { return "" },
		width:   func(string) int { return 0 },
		entries: make(map[K]*entry[K]),
		groups:  make(map[string]*group[K]),
	}
}

// GroupBy gives every group of keys workers of its own, so that passes of one that take long hold up no other. Call it
// before the first Mark.
func (l *Loop[K]) GroupBy(of func(K) string) *Loop[K] {
	l.groupOf = of
	return l
}

// ParallelBy gives groups numbers of workers of their own: of may change what it says, and counts from the next pass
// that begins; 0 is Config.Parallel. It must not call the loop. Call it before Run.
func (l *Loop[K]) ParallelBy(of func(group string) int) *Loop[K] {
	l.width = of
	return l
}

// Mark makes a key due now. A pause after a failure is cut short, though the count of failures stays. A key whose pass
// is under way gets another one: at once if the pass succeeds, after the smallest pause if it fails, so that a worker
// that marks its own key by what it writes cannot spin. Marks add up to one. Marks before Run are kept for it.
func (l *Loop[K]) Mark(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	if e == nil {
		e = &entry[K]{key: key, group: l.groupOf(key)}
		l.entries[key] = e
	}
	e.forgotten = false
	if e.state == running {
		e.marked = true
		return
	}
	l.makeDue(e)
}

// Forget drops a key. A pass under way is not interrupted, but its result is dropped too.
func (l *Loop[K]) Forget(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	if e == nil {
		return
	}
	if e.state == running {
		e.forgotten, e.marked = true, false
		return
	}
	l.remove(e)
	l.wake.Notify()
}

// Pending lists every key that is not done, those that run first, then those that are due, then the rest by time.
func (l *Loop[K]) Pending() []Waiting[K] {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Waiting[K], 0, len(l.entries))
	for _, e := range l.entries {
		if !e.forgotten {
			out = append(out, e.describe())
		}
	}
	sortWaiting(out)
	return out
}

// Idle waits until no pass is under way and no key is due. Keys that wait for a time may remain; Pending lists them.
func (l *Loop[K]) Idle(ctx context.Context) error {
	for {
		changed := l.wake.C()
		if l.idle(time.Now()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s is idle: %w", l.cfg.Name, ctx.Err())
		}
	}
}

func (l *Loop[K]) idle(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.groups) == 0 && !l.timed.ready(now)
}

// Run turns the loop until ctx ends, then waits for the passes under way and returns nil. Keys that are not done stay
// pending; a later Run takes them up. Two Runs at once are refused.
func (l *Loop[K]) Run(ctx context.Context) error {
	if !l.begin() {
		return fmt.Errorf("run %s: %w", l.cfg.Name, errRunning)
	}
	defer l.end()
	g, gctx := lifecycle.NewGroup(ctx)
	defer g.Stop()
	for {
		changed := l.wake.C()
		pause := l.dispatch(gctx, g)
		if l.await(gctx, changed, pause) {
			return g.Wait()
		}
	}
}

var errRunning = errors.New("it runs already")

// await sleeps until the set changes or the pause ends, and tells whether the loop shall end. No pause is negative.
func (l *Loop[K]) await(ctx context.Context, changed <-chan struct{}, pause time.Duration) (ended bool) {
	var alarm <-chan time.Time
	if pause >= 0 {
		t := time.NewTimer(pause)
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-ctx.Done():
		return true
	case <-changed:
	case <-alarm:
	}
	return ctx.Err() != nil
}

// dispatch starts passes for as many due keys as there are workers for, and returns how long it is until the next key
// becomes due by time; negative when none will. The end of a pass wakes the loop.
func (l *Loop[K]) dispatch(ctx context.Context, g *lifecycle.Group) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for l.timed.ready(now) {
		l.makeDue(l.timed[0])
	}
	for name, of := range l.groups {
		for ctx.Err() == nil && len(of.due) > 0 && of.busy < cmp.Or(l.width(name), l.cfg.Parallel) {
			e := of.due[0]
			of.due = of.due[1:]
			e.state = running
			e.marked = false
			e.next = time.Time{}
			of.busy++
			g.Go(l.cfg.Name, func() error { l.pass(ctx, e); return nil })
		}
	}
	if len(l.timed) == 0 {
		return -1
	}
	return max(0, l.timed[0].next.Sub(now))
}

// pass calls the worker once. A panic is a failure of this key and of no other.
func (l *Loop[K]) pass(ctx context.Context, e *entry[K]) {
	var res Result
	var failure error
	_ = lifecycle.Isolated(l.cfg.Name, func() (err error) {
		res, err = l.work(ctx, e.key)
		return err
	}, func(err error) { failure = err })() // an isolated function returns nil: its failure went to the line above
	l.settle(ctx, e, res, failure)
}

// settle files the key by what its pass came to, and says a failure once for its reason, and once that it is over.
func (l *Loop[K]) settle(ctx context.Context, e *entry[K], res Result, failure error) {
	before, pause := l.file(e, res, failure, ctx.Err() != nil)
	about := []slog.Attr{slog.String(logkey.Loop, l.cfg.Name), slog.Any("key", e.key)}
	switch {
	case pause > 0:
		level := slog.LevelWarn
		if text := failure.Error(); text == before {
			level = slog.LevelDebug
		}
		l.cfg.Log.LogAttrs(ctx, level, "try again", append(about, slog.Duration(logkey.NextTry, pause),
			slog.Any(logkey.Error, failure))...)
	case before != "" && failure == nil:
		l.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "it succeeds again", about...)
	}
	l.wake.Notify()
}

// file does settle's work under the lock and returns how the pass before failed, and the pause after a failure. A
// failure while the loop ends says nothing about the key.
func (l *Loop[K]) file(e *entry[K], res Result, failure error, ending bool) (before string, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(e)
	e.state = resting
	if e.forgotten {
		delete(l.entries, e.key)
		return "", 0
	}
	if failure != nil && ending {
		l.makeDue(e)
		return "", 0
	}
	if e.err != nil {
		before = e.err.Error()
	}
	e.err, e.why = failure, res.why
	if failure != nil {
		e.attempts++
		pause = l.cfg.pause(e.attempts)
		if e.marked {
			pause = min(pause, l.cfg.MinPause)
		}
		l.makeTimed(e, pause)
		return before, pause
	}
	e.attempts = 0
	switch {
	case e.marked, res.again && res.after <= 0:
		l.makeDue(e)
	case res.again:
		l.makeTimed(e, res.after)
	default:
		delete(l.entries, e.key)
	}
	return before, 0
}

func (l *Loop[K]) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return false
	}
	l.running = true
	return true
}

func (l *Loop[K]) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = false
}
