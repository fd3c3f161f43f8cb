// Package gc owns the forgetting: evaluations, allocs, jobs and nodes that are over are removed from the state when
// they have been over for a while, or at once when a person asks. What a claim, an attachment or an inventory names
// stays. Only package server runs it.
package gc

import (
	"context"
	"log/slog"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Ages say for how long something stays after it is over. Zero fields take the defaults.
type Ages struct {
	Evals, Jobs, Nodes time.Duration
	Every              time.Duration // between two rounds
}

// DefaultAges keep an hour of history, and a day of nodes that are gone.
var DefaultAges = Ages{Evals: time.Hour, Jobs: 4 * time.Hour, Nodes: 24 * time.Hour, Every: 5 * time.Minute}

// maxBatch bounds the ids in one command.
const maxBatch = 2000

// Collector finds what is over and proposes to forget it.
type Collector struct {
	store    *state.Store
	proposer fsm.Proposer
	ages     Ages
	log      *slog.Logger
}

// New returns a collector.
func New(store *state.Store, p fsm.Proposer, ages Ages, log *slog.Logger) *Collector {
	if ages.Evals <= 0 {
		ages.Evals = DefaultAges.Evals
	}
	if ages.Jobs <= 0 {
		ages.Jobs = DefaultAges.Jobs
	}
	if ages.Nodes <= 0 {
		ages.Nodes = DefaultAges.Nodes
	}
	if ages.Every <= 0 {
		ages.Every = DefaultAges.Every
	}
	return &Collector{store: store, proposer: p, ages: ages, log: log}
}

// Run collects by age until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(c.ages.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := c.collect(ctx, c.ages); err != nil && ctx.Err() == nil {
			c.log.Warn("collecting what is over failed; trying again at the next round", logkey.Error, err)
		}
	}
}

// Force collects everything that is over, however young, and returns the index at which that was done.
func (c *Collector) Force(ctx context.Context) (uint64, error) {
	return c.collect(ctx, Ages{})
}

// collect goes over the state until a round finds nothing more: what one round removes may free what the next finds.
func (c *Collector) collect(ctx context.Context, ages Ages) (uint64, error) {
	for {
		snap := c.store.Snapshot()
		cmd := find(snap, ages, time.Now())
		if len(cmd.Evals)+len(cmd.Allocs)+len(cmd.Jobs)+len(cmd.Nodes) == 0 {
			return snap.Index(), nil
		}
		done, index, err := fsm.Propose[collection.Collected](ctx, c.proposer, cmd)
		if err != nil {
			return 0, err
		}
		c.log.Debug("forgot what is over", "evals", done.Evals, "allocs", done.Allocs, "jobs", done.Jobs, "nodes",
			done.Nodes)
		if done == (collection.Collected{}) {
			return index, nil
		}
	}
}

func find(s *state.Snap, ages Ages, now time.Time) *collection.Collect {
	cmd := &collection.Collect{}
	going := map[ids.Alloc]bool{}
	old := func(nanos int64, age time.Duration) bool { return now.UnixNano()-nanos >= int64(age) }
	for j := range s.Jobs(nil, wire.AllNamespaces, "") {
		if k := (collection.JobName{Namespace: j.Namespace, Job: j.ID}); len(cmd.Jobs) < maxBatch &&
			old(jobTouched(s, k), ages.Jobs) && collection.JobOver(s, k) {
			cmd.Jobs = append(cmd.Jobs, k)
		}
	}
	for a := range s.Allocs(nil, "") {
		if len(cmd.Allocs) < maxBatch && old(a.ModifyTime, ages.Evals) && collection.AllocOver(s, a) {
			cmd.Allocs = append(cmd.Allocs, a.ID)
			going[a.ID] = true
		}
	}
	for e := range s.Evals(nil, "") {
		if len(cmd.Evals) < maxBatch && e.Terminal() && old(e.ModifyTime, ages.Evals) && !needed(s, e.ID, going) {
			cmd.Evals = append(cmd.Evals, e.ID)
		}
	}
	for n := range s.Nodes(nil, "") {
		if n.Status == node.StatusDown && old(n.StatusUpdatedAt*int64(time.Second), ages.Nodes) &&
			collection.NodeOver(s, n.ID) {
			cmd.Nodes = append(cmd.Nodes, n.ID)
		}
	}
	return cmd
}

// jobTouched is the time of the last change of anything of a job, in nanoseconds since the epoch.
func jobTouched(s *state.Snap, k collection.JobName) int64 {
	last := int64(0)
	if j := s.Job(nil, k.Namespace, k.Job); j != nil {
		last = j.SubmitTime
	}
	for a := range s.AllocsByJob(nil, k.Namespace, k.Job) {
		last = max(last, a.ModifyTime)
	}
	for e := range s.EvalsByJob(nil, k.Namespace, k.Job) {
		last = max(last, e.ModifyTime)
	}
	return last
}

// needed tells whether an alloc that stays was made by the evaluation: people follow the one to the other.
func needed(s *state.Snap, id ids.Eval, going map[ids.Alloc]bool) bool {
	for a := range s.AllocsByEval(nil, id) {
		if !going[a.ID] {
			return true
		}
	}
	return false
}
