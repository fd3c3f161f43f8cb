// Package launch owns when jobs by the clock are launched: it waits for their times, by the clock of the server that
// leads, and has each launched once. What was launched stands in the state, so another leader goes on from there: of
// what was missed meanwhile it makes good one. Only package server runs it.
package launch

import (
	"context"
	"log/slog"
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

// Run launches until ctx ends. Run it on the leader alone.
func (k *Keeper) Run(ctx context.Context) error {
	resting := map[name]time.Time{} // those that could not be launched
	said := map[name]uint64{}       // those whose times can't be read, at which index
	for {
		w := state.NewWatch()
		next := k.look(ctx, k.store.Snapshot(), w, resting, said)
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

// look launches what is due, and says when to look again; zero: nothing waits for a time.
func (k *Keeper) look(
	ctx context.Context, s *state.Snap, w *state.Watch, resting map[name]time.Time, said map[name]uint64,
) (next time.Time) {
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for j := range s.PeriodicJobs(w) {
		key := name{j.Namespace, j.ID}
		now := time.Now()
		step, err := periodic.Decide(j, now)
		switch {
		case err != nil:
			if said[key] != j.JobModifyIndex {
				said[key] = j.JobModifyIndex
				k.log.Error("the times of a periodic job can't be read; it is not launched", logkey.Job, j.ID,
					logkey.Error, err)
			}
			continue
		case step.Launch.IsZero():
		case resting[key].After(now):
			sooner(resting[key])
		case k.launch(ctx, j, step.Launch):
			delete(resting, key)
		default:
			resting[key] = now.Add(retryPause)
			sooner(resting[key])
		}
		sooner(step.Wake)
	}
	return next
}

// launch has a job launched, and reports whether that is decided.
func (k *Keeper) launch(ctx context.Context, j *job.Job, due time.Time) bool {
	done, _, err := fsm.Propose[*launches.Launched](ctx, k.proposer, &launches.Launch{
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobModifyIndex: j.JobModifyIndex,
		Due:            due.Unix(),
		Seed:           ids.New(),
	})
	switch {
	case err == nil && done.Skipped != "":
		k.log.Info("a periodic job is not launched at its time", logkey.Job, j.ID, "time", due, "why", done.Skipped)
	case err == nil && done.Child != nil:
		k.log.Info("a periodic job is launched", logkey.Job, done.Child.ID)
	case err != nil && ctx.Err() == nil:
		k.log.Error("a periodic job can't be launched; trying again", logkey.Job, j.ID, "time", due,
			logkey.Error, err)
	}
	return err == nil
}
