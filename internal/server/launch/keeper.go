// Package launch owns when jobs by the clock are launched: it waits for their times, by the clock of the server that
// leads, and has each launched once. What was launched stands in the state, so another leader goes on from there: of
// what was missed meanwhile it makes good one. Only package server runs it.
package launch

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/derive/periodic"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/launches"
	"berth/internal/server/state"
)

const (
	// retryPause is how long a job rests that could not be launched.
	retryPause = 10 * time.Second
	// maxSleep bounds how late it is seen that the clock was set: timers count by another one.
	maxSleep = time.Minute
)

// Keeper launches jobs by the clock.
type Keeper struct {
	store    *state.Store
	proposer fsm.Proposer
	log      *slog.Logger
}

// New returns a keeper. It starts nothing.
func New(store *state.Store, proposer fsm.Proposer, log *slog.Logger) *Keeper {
	return &Keeper{store: store, proposer: proposer, log: log}
}

// name is a job in its namespace.
type name struct {
	namespace ids.Namespace
	id        ids.Job
}

// planned is what is known of a job since its record changed last.
type planned struct {
	index uint64 // of the job's record
	last  int64
	plan  periodic.Plan
	rests time.Time // until when it rests, because it could not be launched
}

// Run launches until ctx ends. Run it on the leader alone.
func (k *Keeper) Run(ctx context.Context) error {
	known := map[name]planned{}
	for {
		w := state.NewWatch()
		var next time.Time
		next, known = k.look(ctx, k.store.Snapshot(), w, known)
		wait, cancel := ctx, context.CancelFunc(func() {})
		if !next.IsZero() {
			if most := time.Now().Add(maxSleep); next.After(most) {
				next = most
			}
			wait, cancel = context.WithDeadline(ctx, next)
		}
		_ = w.Wait(wait) // whatever woke it, it looks again
		cancel()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// look launches what is due, and says when to look again, zero: nothing waits for a time; and what is known now. What a
// job's times say is worked out when its record changed, and not again: others wait for it.
func (k *Keeper) look(
	ctx context.Context, s *state.Snap, w *state.Watch, before map[name]planned,
) (next time.Time, known map[name]planned) {
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	known = make(map[name]planned, len(before))
	for j := range s.PeriodicJobs(w) {
		if ctx.Err() != nil {
			return next, known
		}
		key := name{j.Namespace, j.ID}
		p, is := before[key]
		if !is || p.index != j.JobModifyIndex || p.last != j.LastLaunch {
			p = k.read(j)
		}
		now := time.Now()
		step := p.plan.At(now)
		switch {
		case step.Launch.IsZero():
		case p.rests.After(now):
			sooner(p.rests)
		case !k.launch(ctx, j, step.Launch):
			p.rests = now.Add(retryPause)
			sooner(p.rests)
		}
		known[key] = p
		sooner(step.Wake)
	}
	return next, known
}

func (k *Keeper) read(j *job.Job) planned {
	plan, err := periodic.Of(j)
	if err != nil {
		k.log.Error("the times of a periodic job can't be read; it is not launched", logkey.Job, j.ID,
			logkey.Error, err)
	}
	return planned{index: j.JobModifyIndex, last: j.LastLaunch, plan: plan}
}

// launch has a job launched, and reports whether that is decided.
func (k *Keeper) launch(ctx context.Context, j *job.Job, due time.Time) bool {
	cmd := &launches.Launch{
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobModifyIndex: j.JobModifyIndex,
		Due:            due.Unix(),
		Seed:           ids.New(),
	}
	if m := k.store.Snapshot().Meta(nil); m != nil && m.Schema >= launches.SchemaPlaceless {
		cmd.MaxPlaceless = launches.MaxPlaceless
	}
	done, _, err := fsm.Propose[*launches.Launched](ctx, k.proposer, cmd)
	switch {
	case err == nil && done.Skipped != "":
		level := slog.LevelWarn
		if strings.HasPrefix(done.Skipped, launches.Overlap) { // as the job wants it
			level = slog.LevelInfo
		}
		k.log.Log(ctx, level, "a periodic job is not launched at its time", logkey.Job, j.ID, "time", due,
			"why", done.Skipped)
	case err == nil && done.Child != nil:
		for _, id := range done.Gave {
			k.log.Warn("what a periodic job launched before had no place, and is stopped for its next time",
				logkey.Job, id)
		}
		k.log.Info("a periodic job is launched", logkey.Job, done.Child.ID)
	case err != nil && ctx.Err() == nil:
		k.log.Error("a periodic job can't be launched; trying again", logkey.Job, j.ID, "time", due,
			logkey.Error, err)
	}
	return err == nil
}
