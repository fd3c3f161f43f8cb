// Package suspects owns which allocs runs of the agent have died of. An alloc is marked in the node's store before it
// is begun, and the mark goes when the agent has lived on for a while, or ends in order: a mark that is left at a start
// counts if the agent has crashed. Packages client and client/allocs import it.
package suspects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/localstate"
)

const (
	// DefaultWindow is how long the agent has to live on after it has begun an alloc.
	DefaultWindow = 30 * time.Second
	// enough crashes in a row, and an alloc is not begun any more.
	enough = 3
	// fewEnough is up to how many suspects of as many crashes are begun one after another. Of more, groups are: that
	// the last of them has its turn must not take hours.
	fewEnough = 8
	// retryIn is when marks are dropped that the store could not drop before.
	retryIn = 5 * time.Second
)

// Store is where marks are kept; localstate.Store implements it.
type Store interface {
	PutMarks(map[ids.Alloc]localstate.Mark) error
	DropMarks([]ids.Alloc) error
}

// Runs are the run of the agent that this is, and those before that are known to have crashed.
type Runs struct {
	Now string // ID of this one; empty: it is not recorded, and nothing is marked nor anybody suspected
	// Crashed are those that died of themselves, or that the kernel ended for their memory. A run that is not among
	// them accuses no alloc: it ended in order, or somebody ended it from outside, as a person does with SIGKILL.
	Crashed []string
}

// Config says what is guarded, and how.
type Config struct {
	Store Store
	// Left are the marks that were loaded.
	Left map[ids.Alloc]localstate.Mark
	Runs Runs
	// By is the version of the agent, the boot of the machine and the setting: marks of others are worth nothing.
	By string
	// Window is how long the agent has to live on after it has begun an alloc; 0: DefaultWindow; negative: nothing is
	// marked and nobody suspected.
	Window time.Duration
	Log    *slog.Logger
}

// Guard marks what is begun.
type Guard struct {
	cfg     Config
	changed lifecycle.Signal
	writing sync.Mutex // held from a look at the marks until what follows from it is written

	ended bool // in order: the agent does not die of anything any more

	mu    sync.Mutex
	marks map[ids.Alloc]localstate.Mark
	begun map[ids.Alloc]time.Time // when this run began what is marked
}

// New returns the guard of a run of the agent.
func New(cfg Config) *Guard {
	cfg.Window = cmp.Or(cfg.Window, DefaultWindow)
	g := &Guard{cfg: cfg, marks: map[ids.Alloc]localstate.Mark{}, begun: map[ids.Alloc]time.Time{}}
	for id, m := range cfg.Left {
		if !slices.Contains(cfg.Runs.Crashed, m.Run) {
			m = innocent(m)
		}
		if m.By == cfg.By && !g.off() && m.Crashes > 0 {
			g.marks[id] = m
		}
	}
	return g
}

// innocent is what is left of a mark that was made for a crash that there was not.
func innocent(m localstate.Mark) localstate.Mark {
	m.Crashes, m.Alone = m.Crashes-1, false
	return m
}

func (g *Guard) off() bool { return g.cfg.Window < 0 || g.cfg.Runs.Now == "" }

// Window is how long the agent has to live on after it has begun an alloc.
func (g *Guard) Window() time.Duration { return g.cfg.Window }

// Crashes is how many runs of the agent in a row have died with an alloc that they had begun.
func (g *Guard) Crashes(id ids.Alloc) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.marks[id].Crashes
}

// Suspect reports an alloc with which runs of the agent have died, and that this one has not begun.
func (g *Guard) Suspect(id ids.Alloc) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.marks[id].Crashes > 0 && g.begun[id].IsZero()
}

// Barred reports an alloc that is not to be begun: enough runs of the agent have died with it, the last when it was
// alone. What died beside it may have been the fault of another.
func (g *Guard) Barred(id ids.Alloc) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.marks[id]
	return m.Crashes >= enough && m.Alone
}

// Begin has write write the marks of allocs that are about to be begun, and counts them as begun when it succeeded.
// Whoever was alone until now is not any more, and its mark comes with them.
func (g *Guard) Begin(all []ids.Alloc, write func(map[ids.Alloc]localstate.Mark) error) error {
	g.writing.Lock()
	defer g.writing.Unlock()
	next := map[ids.Alloc]localstate.Mark{}
	if !g.off() && !g.ended {
		next = g.next(all)
	}
	if err := write(next); err != nil {
		return err
	}
	g.mu.Lock()
	maps.Copy(g.marks, next)
	for id := range next {
		if g.begun[id].IsZero() {
			g.begun[id] = time.Now()
		}
	}
	g.mu.Unlock()
	g.changed.Notify()
	return nil
}

func (g *Guard) next(all []ids.Alloc) map[ids.Alloc]localstate.Mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[ids.Alloc]localstate.Mark{}
	alone := len(all) == 1 && len(g.begun) == 0
	for _, id := range all {
		if g.begun[id].IsZero() {
			out[id] = localstate.Mark{
				Crashes: g.marks[id].Crashes + 1,
				Alone:   alone,
				By:      g.cfg.By,
				Run:     g.cfg.Runs.Now,
			}
		}
	}
	for id := range g.begun {
		if m := g.marks[id]; m.Alone && len(all) > 0 {
			m.Alone = false
			out[id] = m
		}
	}
	return out
}

// Settled waits until no alloc is marked as begun; false when ctx ended before.
func (g *Guard) Settled(ctx context.Context) bool {
	for {
		changed := g.changed.C()
		g.mu.Lock()
		left := len(g.begun)
		g.mu.Unlock()
		if left == 0 {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// Turns orders suspects: those of one crash together, as one of them alone can have been the reason and most are not;
// then those of more, fewest crashes first, each by itself, or in groups where they are many.
func (g *Guard) Turns(all []ids.Alloc) (together []ids.Alloc, turns [][]ids.Alloc) {
	by := map[int][]ids.Alloc{}
	for _, id := range all {
		n := g.Crashes(id)
		by[n] = append(by[n], id)
	}
	for _, n := range slices.Sorted(maps.Keys(by)) {
		same, size := by[n], 1
		if n <= 1 {
			together = append(together, same...)
			continue
		}
		if len(same) > fewEnough {
			size = int(math.Ceil(math.Sqrt(float64(len(same)))))
		}
		turns = slices.AppendSeq(turns, slices.Chunk(same, size))
	}
	return together, turns
}

// Forgive forgets what runs of the agent have died of.
func (g *Guard) Forgive(id ids.Alloc) error {
	g.writing.Lock()
	defer g.writing.Unlock()
	return g.drop([]ids.Alloc{id})
}

// Forget drops from memory what an alloc was marked with whose record is gone.
func (g *Guard) Forget(id ids.Alloc) {
	g.mu.Lock()
	delete(g.marks, id)
	delete(g.begun, id)
	g.mu.Unlock()
	g.changed.Notify()
}

// Run drops the marks of those after whose beginning the agent has lived on, until ctx ends. An end in order drops all
// that this run has made; after a panic they stay.
func (g *Guard) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := g.changed.C()
		pause := g.dropSince(time.Now().Add(-g.cfg.Window))
		var due <-chan time.Time
		if pause > 0 {
			due = time.After(pause + g.cfg.Window/10) // so that what was begun at about the same time shares a step
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due:
		}
	}
	var p *lifecycle.PanicError
	if errors.As(context.Cause(ctx), &p) {
		return nil
	}
	g.writing.Lock()
	g.ended = true
	g.writing.Unlock()
	g.dropSince(time.Now())
	return nil
}

// dropSince drops the marks of what was begun up to a moment, all in one step, and returns when to come again; 0: at
// the next change.
func (g *Guard) dropSince(moment time.Time) (pause time.Duration) {
	g.writing.Lock()
	defer g.writing.Unlock()
	var due []ids.Alloc
	g.mu.Lock()
	for id, since := range g.begun {
		if rest := since.Sub(moment); rest <= 0 {
			due = append(due, id)
		} else if pause == 0 || rest < pause {
			pause = rest
		}
	}
	g.mu.Unlock()
	if len(due) == 0 {
		return pause
	}
	slices.Sort(due)
	if err := g.drop(due); err != nil {
		g.cfg.Log.Error("it could not be noted that the agent has not died of allocations", "allocations", len(due),
			logkey.Error, err)
		return retryIn
	}
	return pause
}

// drop drops marks. The caller holds the right to write.
func (g *Guard) drop(all []ids.Alloc) error {
	if err := g.cfg.Store.DropMarks(all); err != nil {
		return err
	}
	for _, id := range all {
		g.Forget(id)
	}
	return nil
}

// Reason says why an alloc is not begun, and what helps.
func (g *Guard) Reason(id ids.Alloc) string {
	return fmt.Sprintf("%s: it is left as it is, and nothing of it is started, ended or unmounted, until a person has "+
		"it taken up (berth alloc restart %s) or another version of the agent runs", g.accusation(id), ids.Short(id))
}

// Waits says why an alloc is not begun yet.
func (g *Guard) Waits(id ids.Alloc) string {
	return g.accusation(id) + ": it is taken up after the others, to see of which one the agent dies"
}

func (g *Guard) accusation(id ids.Alloc) string {
	who := "The last run of the agent"
	if n := g.Crashes(id); n > 1 {
		who = fmt.Sprintf("The last %d runs of the agent", n)
	}
	return fmt.Sprintf("%s crashed within %s of taking it up", who, g.cfg.Window)
}
