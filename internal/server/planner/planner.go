// Package planner owns the serial point of scheduling: it holds every plan against the latest state and the plans that
// are on their way into the log, drops the placements that do not fit any more, and commits allocs and claims in one
// command. The next plan is checked while the one before is being written; the log groups them. Only package worker
// submits plans.
package planner

import (
	"context"
	"log/slog"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/scheduler"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// maxInFlight bounds how many plans are on their way into the log.
const maxInFlight = 64

// Planner commits plans.
type Planner struct {
	store    *state.Store
	proposer fsm.Proposer
	log      *slog.Logger
	queue    chan *submission

	mu       sync.Mutex
	inFlight map[ids.Alloc]*pending
}

// pending is a placement that is on its way into the log.
type pending struct {
	alloc   *alloc.Alloc
	claims  []*volume.Claim
	applied chan struct{} // closed when the command was applied or refused
}

type submission struct {
	plan  *scheduler.Plan
	reply chan outcome // holds one
}

type outcome struct {
	result Result
	err    error
}

// Result is what became of a plan.
type Result struct {
	// Index is that of the command; 0: nothing was committed.
	Index uint64
	// Rejected are the placements that did not fit any more; empty: the whole plan was committed.
	Rejected []Rejection
	// Refresh is the index of a state in which the reasons of the rejections can be seen.
	Refresh uint64
}

// Rejection is a placement or an update that was dropped.
type Rejection struct {
	Alloc  ids.Alloc
	Node   ids.Node
	Reason string
}

// New returns a planner that commits nothing before Run.
func New(store *state.Store, p fsm.Proposer, log *slog.Logger) *Planner {
	return &Planner{
		store:    store,
		proposer: p,
		log:      log,
		queue:    make(chan *submission),
		inFlight: map[ids.Alloc]*pending{},
	}
}

// Submit hands a plan over and waits until it is committed or refused. The planner may change the plan's new objects.
func (p *Planner) Submit(ctx context.Context, plan *scheduler.Plan) (Result, error) {
	s := &submission{plan: plan, reply: make(chan outcome, 1)}
	select {
	case p.queue <- s:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	select {
	case o := <-s.reply:
		return o.result, o.err
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}

// Run checks plans one after another until ctx ends, and joins those that are being written.
func (p *Planner) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	slots := make(chan struct{}, maxInFlight)
	g.Go("plans", func() error {
		for {
			select {
			case <-gctx.Done():
				return nil
			case slots <- struct{}{}:
			}
			select {
			case <-gctx.Done():
				return nil
			case s := <-p.queue:
				p.accept(gctx, g, s, slots)
			}
		}
	})
	err := g.Wait()
	p.mu.Lock()
	clear(p.inFlight)
	p.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// accept checks a plan and lets what fits be written beside the plans that follow.
func (p *Planner) accept(ctx context.Context, g *lifecycle.Group, s *submission, slots chan struct{}) {
	v := p.verify(s.plan)
	p.track(v)
	g.Go("commit", func() error {
		defer func() { <-slots }()
		var o outcome
		if v.cmd != nil {
			o = p.commit(ctx, v)
		}
		if o.err == nil && len(o.result.Rejected)+len(v.rejected) > 0 {
			o.result.Rejected = append(o.result.Rejected, v.rejected...)
			v.wait(ctx)
			o.result.Refresh = p.store.Snapshot().Index()
		}
		s.reply <- o
		return nil
	})
}

// wait ends when the plans have applied that stood in the way: their effect can be seen then.
func (v *result) wait(ctx context.Context) {
	for _, applied := range v.rivals {
		select {
		case <-applied:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Planner) track(v *result) {
	v.applied = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pl := range v.placed {
		p.inFlight[pl.Alloc.ID] = &pending{pl.Alloc, pl.Claims, v.applied}
	}
}

func (p *Planner) settle(v *result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pl := range v.placed {
		delete(p.inFlight, pl.Alloc.ID)
	}
	close(v.applied)
}

// flights lists what is on its way. Take it before the snapshot: what lands in between is in both, never in neither.
func (p *Planner) flights() map[ids.Alloc]*pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[ids.Alloc]*pending, len(p.inFlight))
	for id, f := range p.inFlight {
		out[id] = f
	}
	return out
}

func (p *Planner) commit(ctx context.Context, v *result) outcome {
	_, index, err := p.proposer.Propose(ctx, v.cmd)
	p.settle(v)
	switch {
	case err == nil:
		return outcome{result: Result{Index: index}}
	case fault.Has(err, fault.Conflict) || fault.Has(err, fault.Busy):
		// The state moved on between the check and the command: nothing of the plan was committed.
		p.log.Debug("a plan came too late", logkey.Eval, v.eval, logkey.Error, err)
		var out Result
		for _, pl := range v.placed {
			out.Rejected = append(out.Rejected, Rejection{pl.Alloc.ID, pl.Alloc.Node, err.Error()})
		}
		if len(out.Rejected) == 0 {
			out.Rejected = []Rejection{{Reason: err.Error()}}
		}
		return outcome{result: out}
	}
	return outcome{err: fault.Note(err, "commit the plan of evaluation", string(v.eval))}
}
