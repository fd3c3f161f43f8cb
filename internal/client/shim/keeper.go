package shim

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/port/hostfs"
)

// Standing says what the records of the node make of an alloc.
type Standing uint8

// Standings.
const (
	// Unknown: there is no record. What runs is an orphan: it is kept and shown.
	Unknown Standing = iota
	// Active: a record wants its tasks, or may still launch them, or cannot be read.
	Active
	// Ended: its record says that everything of it has ended, or its removal is proven. Nothing of it may run.
	Ended
)

// Records is what the keeper asks of the node: the client implements it. A record must exist before the first launch.
type Records interface {
	Standing(ids.Alloc) Standing
	// Changed returns a channel that is closed at the next change of any alloc.
	Changed() <-chan struct{}
}

// KeeperConfig wires a Keeper.
type KeeperConfig struct {
	Launcher *Launcher
	Records  Records
	// Dirs tells of the sockets' directory; nil: a hostfs.Directories of its own.
	Dirs *hostfs.Directories
	// Changed is called when Gone may answer anew, with nothing held; may be nil.
	Changed func()
	// Period is how long the keeper rests when nothing happens; 0: DefaultPeriod.
	Period time.Duration
	Log    *slog.Logger // nil discards
}

// DefaultPeriod is how often the shims are compared with the records when nothing else asks for it.
const DefaultPeriod = 30 * time.Second

// minRest lets a burst of changes pass as one.
const minRest = 500 * time.Millisecond

// Keeper compares the shims of a launcher, their cgroups and the records of allocs, for as long as the agent runs. It
// ends a shim whose alloc has ended, and one that says that it holds nothing; it keeps, and names, whatever no record
// knows.
type Keeper struct {
	cfg KeeperConfig

	mu        sync.Mutex
	looked    bool
	orphans   map[ids.Alloc]Held
	reported  map[string]bool // what the last comparison reported: once for as long as it goes on
	reporting map[string]bool // and this one
}

// NewKeeper returns a keeper that does nothing before Run.
func NewKeeper(cfg KeeperConfig) *Keeper {
	cfg.Period = cmp.Or(cfg.Period, DefaultPeriod)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	return &Keeper{cfg: cfg, orphans: map[ids.Alloc]Held{}, reporting: map[string]bool{}}
}

// Run compares now, whenever the directory of the sockets or a record changes, and now and then, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	var sockets lifecycle.Signal
	if k.cfg.Dirs == nil {
		k.cfg.Dirs = hostfs.NewDirectories(k.cfg.Log)
		g.Go("directories", func() error { return k.cfg.Dirs.Run(gctx) })
	}
	g.Go("watch sockets", func() error {
		dir := k.cfg.Dirs.Watch(k.cfg.Launcher.cfg.Dir)
		defer dir.Close()
		for {
			select {
			case <-gctx.Done():
				return nil
			case <-dir.Changed():
				sockets.Notify()
			}
		}
	})
	g.Go("compare", func() error {
		for gctx.Err() == nil {
			records, files := k.cfg.Records.Changed(), sockets.C()
			k.compare(gctx)
			if !rest(gctx, minRest, nil, nil) {
				break
			}
			rest(gctx, k.cfg.Period, records, files)
		}
		return nil
	})
	return g.Wait()
}

// rest waits until something happened or d is over; false when ctx ended.
func rest(ctx context.Context, d time.Duration, records, files <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-records:
	case <-files:
	}
	return true
}

// compare looks once at everything that no record wants.
func (k *Keeper) compare(ctx context.Context) {
	stems, err := k.cfg.Launcher.stems()
	if err != nil {
		k.complain(ctx, "", "the shims of this node cannot be listed", err)
		return
	}
	orphans := map[ids.Alloc]Held{}
	suspects := slices.DeleteFunc(slices.Clone(stems), func(s string) bool {
		standing := k.cfg.Records.Standing(ids.Alloc(s))
		h, old := k.recent(ids.Alloc(s))
		if old && standing == Unknown {
			orphans[h.Alloc] = h
			return true
		}
		return standing == Active
	})
	var mu sync.Mutex
	err = each(ctx, suspects, func(ctx context.Context, stem string) error {
		if h, orphan := k.judge(ctx, stem); orphan {
			mu.Lock()
			defer mu.Unlock()
			orphans[h.Alloc] = h
		}
		return ctx.Err()
	})
	if err != nil {
		return // the agent ends
	}
	k.sweepGroups(ctx, stems)
	k.note(orphans)
}

func set(all []string) map[string]bool {
	out := map[string]bool{}
	for _, s := range all {
		out[s] = true
	}
	return out
}

// recent returns an orphan that was looked at a moment ago: a node that lost its records may have many, and other
// allocs change all the time.
func (k *Keeper) recent(id ids.Alloc) (Held, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, ok := k.orphans[id]
	return h, ok && time.Since(h.at) < k.cfg.Period/6
}

// judge does what is right for one shim, and reports whether it is an orphan.
func (k *Keeper) judge(ctx context.Context, stem string) (h Held, orphan bool) {
	l := k.cfg.Launcher
	h = l.look(ctx, stem)
	if ctx.Err() != nil {
		return h, false
	}
	// Asked after the look: a record is there before the shim of its launch.
	switch standing := k.cfg.Records.Standing(h.Alloc); {
	case standing == Active:
	case standing == Ended:
		k.logOnce(ctx, slog.LevelWarn, h.Alloc, "ending a shim whose allocation has ended",
			logkey.PID, h.PID, "holds", h.tasks())
		if err := l.End(ctx, h.Alloc); err != nil {
			k.complain(ctx, h.Alloc, "a shim whose allocation has ended could not be ended; it is tried again", err)
		}
	case h.Dead && !h.Populated, h.Cancelled:
		k.logOnce(ctx, slog.LevelInfo, h.Alloc, "ending a shim that holds nothing and that no record knows",
			logkey.PID, h.PID, "dead", h.Dead)
		if err := l.bye(ctx, string(h.Alloc)); err != nil {
			k.complain(ctx, h.Alloc, "a shim that holds nothing could not be ended; it is tried again", err)
		}
	default:
		h.gone = l.over(h)
		return h, true
	}
	return h, false
}

// sweepGroups ends what is left in the cgroups of allocs that have ended and have no socket. Cgroups that no record
// names may be another agent's.
func (k *Keeper) sweepGroups(ctx context.Context, stems []string) {
	l := k.cfg.Launcher
	groups, err := l.tree.Allocs(l.cfg.Slice)
	if err != nil {
		k.complain(ctx, "", "the cgroups of allocations cannot be listed", err)
		return
	}
	served := set(stems)
	for _, name := range groups {
		id := ids.Alloc(name)
		if served[name] || k.cfg.Records.Standing(id) != Ended || ctx.Err() != nil {
			continue
		}
		k.logOnce(ctx, slog.LevelWarn, id, "removing the cgroup of an allocation that has ended",
			"processes", l.tree.Alloc(l.cfg.Slice, name).Processes())
		if err := l.End(ctx, id); err != nil {
			k.complain(ctx, id, "the cgroup of an allocation that has ended could not be removed; it is tried again",
				err)
		}
	}
}

// note takes over the orphans that a whole comparison found, and says what is new before anybody can ask for it.
func (k *Keeper) note(orphans map[ids.Alloc]Held) {
	k.mu.Lock()
	before, first := maps.Clone(k.orphans), !k.looked
	k.mu.Unlock()
	news := first || len(orphans) != len(before)
	for _, id := range slices.Sorted(maps.Keys(orphans)) {
		h := orphans[id]
		old, known := before[id]
		news = news || !known || h.gone != old.gone
		if h.Since = h.at; known {
			h.Since = old.Since
		}
		orphans[id] = h
		if !known {
			k.cfg.Log.Warn(
				"a shim holds tasks of an allocation that this node has no record of: it is an orphan, and is kept",
				logkey.Alloc, id, logkey.PID, h.PID, "holds", h.tasks(), logkey.Error, h.Err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if _, still := orphans[id]; !still {
			k.cfg.Log.Info("an orphan is gone, or its allocation is known again", logkey.Alloc, id)
		}
	}
	k.mu.Lock()
	k.orphans, k.looked = orphans, true
	k.reported, k.reporting = k.reporting, map[string]bool{}
	k.mu.Unlock()
	if news {
		k.cfg.Changed()
	}
}

// complain says a failure.
func (k *Keeper) complain(ctx context.Context, id ids.Alloc, what string, err error) {
	k.logOnce(ctx, slog.LevelWarn, id, what, logkey.Error, err)
}

// logOnce logs something once, for as long as each comparison finds it again.
func (k *Keeper) logOnce(ctx context.Context, level slog.Level, id ids.Alloc, what string, more ...any) {
	key := string(id) + ": " + what
	k.mu.Lock()
	old := k.reported[key] || k.reporting[key]
	k.reporting[key] = true
	k.mu.Unlock()
	if !old {
		k.cfg.Log.With(logkey.Alloc, id).Log(ctx, level, what, more...)
	}
}

// Orphans lists the shims of allocs that no record knows, by alloc, as they were found last. A nil Keeper finds none.
func (k *Keeper) Orphans() []Held {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.orphans), func(a, b Held) int { return cmp.Compare(a.Alloc, b.Alloc) })
}

// Gone reports whether no process of an alloc without a record runs here, or in words what does. Before the first look
// nothing is known.
func (k *Keeper) Gone(id ids.Alloc) (bool, string) {
	k.mu.Lock()
	h, orphan := k.orphans[id]
	looked := k.looked
	k.mu.Unlock()
	switch {
	case !looked:
		return false, "the agent has just started and has not looked at the shims of this node yet"
	case orphan && !h.gone:
		return false, "it is an orphan: no record knows it, and its shim holds " + h.tasks()
	case !orphan && k.cfg.Launcher.populated(id):
		return false, "processes are left in its cgroup"
	}
	return true, ""
}

// EndOrphans ends the orphans that were found last, because the agent is to leave nothing behind.
func (k *Keeper) EndOrphans(ctx context.Context) error {
	all := k.Orphans()
	if len(all) == 0 {
		return nil
	}
	err := each(ctx, all, func(ctx context.Context, h Held) error {
		k.cfg.Log.Warn("ending an orphan, because the agent stops and leaves nothing behind",
			logkey.Alloc, h.Alloc, "holds", h.tasks())
		if err := k.cfg.Launcher.End(ctx, h.Alloc); err != nil {
			return err
		}
		k.mu.Lock()
		delete(k.orphans, h.Alloc)
		k.mu.Unlock()
		return nil
	})
	k.cfg.Changed()
	return err
}

// tasks names what a shim holds, for people.
func (h Held) tasks() string {
	switch {
	case h.Err != nil:
		return "nobody knows what: it does not answer"
	case h.Dead:
		return "processes without a shim"
	case len(h.Tasks) == 0:
		return "nothing"
	}
	var out []string
	for _, t := range h.Tasks {
		state := fmt.Sprintf("process %d", t.PID)
		if t.Ended {
			state = "ended"
		}
		out = append(out, fmt.Sprintf("task %q (attempt %d, %s)", t.Task, t.Attempt, state))
	}
	return strings.Join(out, ", ")
}
