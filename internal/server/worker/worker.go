// Package worker owns the way of an evaluation from the broker through the scheduler to the planner and back, and dry
// runs. It decides nothing itself. The server half constructs it.
package worker

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/eval"
	"berth/internal/scheduler"
	"berth/internal/server/broker"
	"berth/internal/server/fsm"
	"berth/internal/server/planner"
	"berth/internal/server/state"
)

// maxAttempts bounds how often a plan is made anew because the state moved on; then the evaluation is put off.
const maxAttempts = 8

// putOff is how long.
const putOff = 2 * time.Second

// Scheduling is the broker, the workers and the planner together: the leader's work of placing allocs.
type Scheduling struct {
	store    *state.Store
	proposer fsm.Proposer
	log      *slog.Logger
	broker   *broker.Broker
	planner  *planner.Planner
	workers  int
}

// New returns the scheduling of a server with n workers. It does nothing before Run.
func New(store *state.Store, p fsm.Proposer, n int, log *slog.Logger) *Scheduling {
	return &Scheduling{
		store:    store,
		proposer: p,
		log:      log,
		workers:  max(n, 1),
		broker:   broker.New(store, log),
		planner:  planner.New(store, p, log),
	}
}

// Stats counts evaluations by where they are.
func (s *Scheduling) Stats() broker.Stats { return s.broker.Stats() }

// Run schedules until ctx ends. Run it on the leader alone.
func (s *Scheduling) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("broker", func() error { return s.broker.Run(gctx) })
	g.Go("planner", func() error { return s.planner.Run(gctx) })
	for i := range s.workers {
		g.Go(fmt.Sprintf("worker %d", i), func() error { return s.work(gctx) })
	}
	err := g.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *Scheduling) work(ctx context.Context) error {
	for {
		d, err := s.broker.Dequeue(ctx)
		if err != nil {
			return nil // the end of the context is the end of the work
		}
		e := d.Eval
		run := lifecycle.Isolated("evaluation "+string(e.ID), func() error {
			return s.process(ctx, e)
		}, func(err error) {
			if ctx.Err() == nil {
				s.log.Warn("an evaluation is tried again later", logkey.Eval, e.ID, logkey.Job, e.Job, logkey.Attempt,
					d.Tries+1, logkey.Error, err)
			}
			s.broker.Nack(e.ID)
		})
		if err := run(); err != nil {
			return err
		}
	}
}

// process brings an evaluation to its end: committed, blocked, or put off.
func (s *Scheduling) process(ctx context.Context, e *eval.Eval) error {
	index := e.ModifyIndex
	for range maxAttempts {
		snap, err := s.store.SnapshotAt(ctx, index)
		if err != nil {
			return err
		}
		now := snap.Eval(nil, e.ID)
		if now == nil || now.Terminal() {
			s.broker.Ack(e.ID, snap.Index())
			return nil
		}
		began := time.Now()
		plan, why := scheduler.Schedule(planner.ViewOf(snap), now, began)
		if unchanged(now, &plan) {
			s.broker.Block(e.ID, snap.Index(), why.Storage)
			return nil
		}
		stamp(&plan, snap.Index(), time.Since(began))
		r, err := s.planner.Submit(ctx, &plan)
		if err != nil {
			return err
		}
		if len(r.Rejected) == 0 {
			s.broker.Ack(e.ID, r.Index)
			return nil
		}
		s.log.Debug("a plan was committed in part", logkey.Eval, e.ID, "rejected", len(r.Rejected), "reason",
			r.Rejected[0].Reason)
		index = r.Refresh
	}
	return s.postpone(ctx, e.ID)
}

// stamp notes the state that the outcome was found in, and each placement's share of the time that it took.
func stamp(p *scheduler.Plan, index uint64, took time.Duration) {
	for _, pl := range p.Place {
		pl.Alloc.Metrics.AllocationTime = took / time.Duration(len(p.Place))
	}
	p.Eval.SnapshotIndex = index
	for _, e := range p.Evals {
		if e.CreateIndex == 0 {
			e.SnapshotIndex = index
		}
	}
}

// unchanged reports that a blocked evaluation is blocked as before: there is nothing to write.
func unchanged(e *eval.Eval, p *scheduler.Plan) bool {
	return e.Status == eval.StatusBlocked && p.Eval.Status == eval.StatusBlocked && p.Empty() && len(p.Evals) == 0 &&
		e.StatusDescription == p.Eval.StatusDescription && e.TriggeredBy == p.Eval.TriggeredBy &&
		reflect.DeepEqual(e.FailedTGAllocs, p.Eval.FailedTGAllocs) &&
		sameCounts(e.QueuedAllocations, p.Eval.QueuedAllocations)
}

func sameCounts(a, b map[string]int) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// postpone ends an evaluation whose plans were overtaken again and again, and leaves another one for later.
func (s *Scheduling) postpone(ctx context.Context, id ids.Eval) error {
	e := s.store.Snapshot().Eval(nil, id)
	if e == nil || e.Terminal() {
		s.broker.Ack(id, s.store.Snapshot().Index())
		return nil
	}
	next := *e
	next.ID = ids.Eval(ids.New())
	next.PreviousEval = e.ID
	next.TriggeredBy = eval.TriggerMaxPlans
	next.Status = eval.StatusPending
	next.StatusDescription = "made because the plans of the evaluation before were overtaken"
	next.WaitUntil = time.Now().Add(putOff)
	next.CreateTime = 0
	next.BlockedEval = ""
	next.NextEval = ""
	next.FailedTGAllocs, next.QueuedAllocations = nil, map[string]int{}
	done := *e
	done.Status, done.NextEval = eval.StatusFailed, next.ID
	done.StatusDescription = fmt.Sprintf("its plans were overtaken by others %d times; evaluation %s goes on",
		maxAttempts, ids.Short(next.ID))
	_, index, err := s.proposer.Propose(ctx, &fsm.EvalUpdate{Evals: []*eval.Eval{&done, &next}})
	if err != nil {
		return fault.Note(err, "put off evaluation", string(id))
	}
	s.log.Warn("an evaluation was put off: its plans were overtaken again and again", logkey.Eval, id, logkey.Job,
		e.Job)
	s.broker.Ack(id, index)
	return nil
}
