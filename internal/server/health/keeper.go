// Package health owns the decision whether allocs are healthy: it watches what nodes report of their tasks, lets
// model/alloc's flow judge it by the leader's clock, and records what was decided, so that rolling updates go on or
// stop and people read the same. Nobody else decides it; only what a report proves by itself is recorded with it.
// Only package server runs it.
package health

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/reconcile"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// grain is how finely time is looked at: what falls due within one grain is decided together, in one command, so that
// many allocs that start at once cost few entries of the log. No alloc waits longer than that for its decision.
const grain = 250 * time.Millisecond

// maxBatch bounds the decisions in one command.
const maxBatch = 1000

// Config wires a keeper.
type Config struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Log      *slog.Logger
}

// Keeper decides the health of allocs. Run it on the leader only.
type Keeper struct {
	cfg  Config
	loop *reconcile.Loop[round]
	// What follows belongs to the passes of the loop, of which there is one at a time.
	open  map[ids.Alloc]*opened // whose health is not decided, or may change by time
	seen  uint64                // up to which index changed allocs were looked for
	begun time.Time             // from which grains are counted
}

// opened is what is kept of an alloc from one pass to the next.
type opened struct {
	memory alloc.HealthMemory
	// What follows spares the passes that other allocs cause the question: while nothing of it is news, the answer is
	// the same.
	news  bool      // it changed since it was judged, or what was decided was not recorded
	until time.Time // when its answer may change by time; zero: not
}

// rests says that the answer about the alloc is still the last one.
func (o *opened) rests(now time.Time) bool {
	return !o.news && (o.until.IsZero() || o.until.After(now))
}

// round is the one key of the loop: allocs are decided together.
type round struct{}

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg}
	k.loop = reconcile.New(reconcile.Config{Name: "health", Parallel: 1, Log: cfg.Log}, k.pass)
	return k
}

// Run decides until ctx ends. What an earlier leader had observed is not known: every wait begins anew.
func (k *Keeper) Run(ctx context.Context) error {
	k.open = map[ids.Alloc]*opened{}
	k.seen = 0
	k.begun = time.Now()
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{"decide": k.loop.Run, "watch": k.watch})
}

// watch asks for a pass after every change of any alloc.
func (k *Keeper) watch(ctx context.Context) error {
	for {
		w := state.NewWatch()
		k.cfg.Store.Snapshot().Allocs(w, "")
		k.loop.Mark(round{})
		if err := w.Wait(ctx); err != nil {
			return nil
		}
	}
}

// pass looks at every alloc that changed or is open, and records what is decided.
func (k *Keeper) pass(ctx context.Context, _ round) (reconcile.Result, error) {
	snap := k.cfg.Store.Snapshot()
	k.learn(snap)
	decisions, next := k.judge(snap, time.Now())
	for batch := range slices.Chunk(decisions, maxBatch) {
		if _, _, err := k.cfg.Proposer.Propose(ctx, &fsm.AllocHealth{Decisions: batch, Seed: ids.New()}); err != nil {
			return reconcile.Done(), err
		}
	}
	if next.IsZero() {
		return reconcile.Done(), nil
	}
	return reconcile.Again(k.until(next), "tasks have to run for a while"), nil
}

// learn opens the allocs that changed since the last pass. Those that are not to be judged are closed by that.
func (k *Keeper) learn(snap *state.Snap) {
	if snap.Index() < k.seen { // the state was replaced by an older one
		k.seen, k.open = 0, map[ids.Alloc]*opened{}
	}
	for a := range snap.AllocsSince(k.seen + 1) {
		if k.open[a.ID] == nil {
			k.open[a.ID] = &opened{}
		}
		k.open[a.ID].news = true
	}
	k.seen = snap.Index()
}

// judge asks the flow about every open alloc of which the answer may be another than in the last pass; next is when the
// first of all is to be looked at again.
func (k *Keeper) judge(snap *state.Snap, now time.Time) (decisions []fsm.HealthDecision, next time.Time) {
	groups := map[groupKey]*job.TaskGroup{}
	for id, o := range k.open { // in any order: the decisions are sorted
		a := snap.Alloc(nil, id)
		if a == nil {
			delete(k.open, id)
			continue
		}
		if o.rests(now) {
			next = sooner(next, o.until)
			continue
		}
		v := alloc.NextHealth(alloc.HealthFacts{Now: now, Alloc: a, Group: groupOf(snap, groups, a), Memory: o.memory})
		o.news = false
		switch v.Do {
		case alloc.HealthRest:
			delete(k.open, id)
			continue
		case alloc.HealthGood, alloc.HealthBad:
			o.news = true // until it is recorded, which changes the alloc
			decisions = append(decisions, fsm.HealthDecision{
				Alloc:   id,
				Seen:    a.ModifyIndex,
				Healthy: v.Do == alloc.HealthGood,
				Reason:  v.Reason,
			})
		}
		o.memory, o.until = v.Memory, v.Until
		next = sooner(next, v.Until)
	}
	slices.SortFunc(decisions, func(a, b fsm.HealthDecision) int { return cmp.Compare(a.Alloc, b.Alloc) })
	return decisions, next
}

// sooner is the earlier of two times; a zero time is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

type groupKey struct {
	ns              ids.Namespace
	job             ids.Job
	create, version uint64
	group           string
}

// groupOf is the group of an alloc's own version of its job; many allocs of one group ask once.
func groupOf(snap *state.Snap, known map[groupKey]*job.TaskGroup, a *alloc.Alloc) *job.TaskGroup {
	key := groupKey{a.Namespace, a.Job, a.JobCreateIndex, a.JobVersion, a.TaskGroup}
	g, ok := known[key]
	if !ok {
		if j := snap.JobOf(nil, a); j != nil {
			g = j.Group(a.TaskGroup)
		}
		known[key] = g
	}
	return g
}

// until is the pause to a time, or rather to the end of the grain in which it lies.
func (k *Keeper) until(t time.Time) time.Duration {
	whole := (t.Sub(k.begun) + grain - 1) / grain * grain
	return max(0, time.Until(k.begun.Add(whole)))
}
