// Package follow owns the telling of how work proceeds: an evaluation until it ends, then its allocations until each of
// them runs or has ended, without polling; and the words for what could not be placed. Only packages of the command
// line import it.
package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/retry"
	"berth/internal/cli/kit"
	"berth/internal/cli/rollout"
)

// Follower tells on the standard output what happens.
type Follower struct {
	Env     *kit.Env
	Client  *api.Client
	Verbose bool
	// Wait makes it go on when not everything could be placed, until the rest is.
	Wait bool
}

// New makes a follower of the environment's agent.
func New(e *kit.Env, verbose, wait bool) *Follower {
	return &Follower{Env: e, Client: e.Client(), Verbose: verbose, Wait: wait}
}

func (f *Follower) heading(format string, args ...any) {
	f.Env.Out.Printf("%s\n", f.Env.Out.Bold("==> "+kit.At(time.Now())+": "+kit.Clean(fmt.Sprintf(format, args...))))
}

func (f *Follower) line(format string, args ...any) {
	f.Env.Out.Printf("    %s: %s\n", kit.At(time.Now()), kit.Clean(fmt.Sprintf(format, args...)))
}

func (f *Follower) id(id string) string { return kit.ID(id, f.Verbose) }

// reconnectFor is how long an agent that answered before may be away, because it restarts.
const reconnectFor = 30 * time.Second

// Watch reads again and again, each time when something has changed. read returns whether it is done.
func Watch(
	ctx context.Context, ns string, read func(o *api.QueryOptions) (done bool, meta *api.QueryMeta, err error),
) error {
	return watchFrom(ctx, ns, 0, read)
}

// watchFrom is Watch by somebody who has been answered before, with what there was at an index: news of that is all the
// first reading waits for.
func watchFrom(
	ctx context.Context, ns string, index uint64,
	read func(o *api.QueryOptions) (done bool, meta *api.QueryMeta, err error),
) error {
	o := &api.QueryOptions{Namespace: ns, WaitIndex: index}
	var lost time.Time // since when no agent answers
	for {
		begun := time.Now()
		done, meta, err := read(o)
		var gone *api.UnreachableError
		if errors.As(err, &gone) && o.WaitIndex > 0 { // it has answered before: it may be restarting
			if lost.IsZero() {
				lost = begun
			}
			if begun.Sub(lost) < reconnectFor {
				if !retry.Sleep(ctx, time.Second) {
					return ctx.Err()
				}
				continue
			}
			return fault.WithHint(err, "no longer following; the work goes on")
		}
		if err != nil || done {
			return err
		}
		lost = time.Time{}
		if meta.Index > o.WaitIndex {
			o.WaitIndex = meta.Index
			continue
		}
		// The wait ended without news. An agent that answers at once without any would be asked in a hot loop.
		least := time.Second
		if o.WaitTime > 0 {
			least = min(least, o.WaitTime)
		}
		if !retry.Sleep(ctx, least-time.Since(begun)) {
			return ctx.Err()
		}
		o.WaitIndex = max(meta.Index, 1)
	}
}

// Evaluation follows an evaluation, and those that continue it or take its place, to the end. When allocations have no
// place, everything is reported and the error is an Exit with the code for that.
func (f *Follower) Evaluation(ctx context.Context, id, ns string) (*api.Evaluation, error) {
	for {
		e, err := f.one(ctx, id, ns)
		if err != nil {
			return nil, f.gaveUp(ctx, err, "berth eval status "+f.id(id))
		}
		switch {
		case e.NextEval != "":
			f.line("Evaluation %q continues it", f.id(e.NextEval))
			id = e.NextEval
		case e.Status == api.EvalStatusCancelled:
			newer, err := f.newer(ctx, e)
			if err != nil || newer == "" {
				return e, f.gaveUp(ctx, err, "berth eval status "+f.id(id))
			}
			f.line("Evaluation %q took its place", f.id(newer))
			id = newer
		case e.Status != api.EvalStatusComplete:
			return e, kit.Fail(fault.Conflict, "", "evaluation %q ended as %s: %s", f.id(id), e.Status,
				orUnknown(e.StatusDescription))
		case len(e.FailedTGAllocs) == 0:
			return e, nil
		case !f.Wait || e.BlockedEval == "":
			return e, &kit.Exit{Code: kit.ExitUnplaced}
		default:
			id = e.BlockedEval
		}
	}
}

// newer is the newest evaluation of the same job that came after one and was not cancelled; empty: there is none.
func (f *Follower) newer(ctx context.Context, e *api.Evaluation) (string, error) {
	list, _, err := f.Client.Jobs().Evaluations(ctx, e.JobID, &api.QueryOptions{Namespace: e.Namespace})
	if err != nil {
		return "", kit.Doing(err, "list the evaluations of", "job", e.JobID)
	}
	var best *api.Evaluation
	for _, o := range list {
		if o.CreateIndex <= e.CreateIndex || o.Status == api.EvalStatusCancelled {
			continue
		}
		if best == nil || o.CreateIndex > best.CreateIndex {
			best = o
		}
	}
	if best == nil {
		return "", nil
	}
	return best.ID, nil
}

func orUnknown(text string) string {
	if text == "" {
		return "the agent gave no reason"
	}
	return text
}

// gaveUp names the command with which to go on when the person stopped following.
func (f *Follower) gaveUp(ctx context.Context, err error, command string) error {
	if ctx.Err() == nil {
		return err
	}
	return kit.Fail(fault.Canceled, "look at it with: "+command, "no longer following; the work goes on")
}

// one follows a single evaluation, and reports what it came to.
func (f *Follower) one(ctx context.Context, id, ns string) (*api.Evaluation, error) {
	e, err := f.ended(ctx, id, ns, 0)
	if err != nil {
		return nil, err
	}
	return e, f.madeBy(ctx, e, ns)
}

// ended follows a single evaluation, which is known to be new at an index unless that is 0, to its end.
func (f *Follower) ended(ctx context.Context, id, ns string, made uint64) (*api.Evaluation, error) {
	f.heading("Following evaluation %q", f.id(id))
	var last *api.Evaluation
	err := watchFrom(ctx, ns, made, func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		e, meta, err := f.Client.Evaluations().Get(ctx, id, o)
		if err != nil {
			return false, nil, kit.Doing(err, "follow", "evaluation", f.id(id))
		}
		if last == nil {
			f.line("%s", cause(e))
		}
		if last != nil && last.Status != e.Status {
			f.line("Evaluation is now %s", e.Status)
		}
		last = e
		return e.Status == api.EvalStatusComplete || e.Status == api.EvalStatusFailed ||
			e.Status == api.EvalStatusCancelled, meta, nil
	})
	return last, err
}

// cause says why an evaluation was made.
func cause(e *api.Evaluation) string {
	switch {
	case e.NodeID != "" && e.JobID == "":
		return fmt.Sprintf("It was made by node %q (%s)", e.NodeID, e.TriggeredBy)
	case e.JobID != "":
		return fmt.Sprintf("It is for job %q (%s)", e.JobID, e.TriggeredBy)
	}
	return "It was made by " + e.TriggeredBy
}

// madeBy asks for the allocations that an evaluation made, stopped or changed, and reports what it came to.
func (f *Follower) madeBy(ctx context.Context, e *api.Evaluation, ns string) error {
	allocs, _, err := f.Client.Evaluations().Allocations(ctx, e.ID, &api.QueryOptions{Namespace: ns})
	if err != nil {
		return kit.Doing(err, "list the allocations of", "evaluation", f.id(e.ID))
	}
	f.made(e, allocs)
	return nil
}

// made reports what an evaluation came to. allocs may hold those of others, too.
func (f *Follower) made(e *api.Evaluation, allocs []*api.AllocationListStub) {
	for _, a := range allocs {
		did := "created"
		switch {
		case a.EvalID != e.ID:
			continue
		case a.DesiredStatus != api.AllocDesiredStatusRun:
			did = "asked to stop"
		case a.CreateIndex < e.CreateIndex:
			did = "changed in place"
		}
		f.line("Allocation %q %s: group %q on node %q", f.id(a.ID), did, a.TaskGroup, nodeName(a))
	}
	if len(e.FailedTGAllocs) == 0 {
		f.heading("Evaluation %q is %s", f.id(e.ID), e.Status)
		return
	}
	f.heading("Evaluation %q is %s, but not everything could be placed", f.id(e.ID), e.Status)
	Explain(f.Env.Out, "    ", e.FailedTGAllocs, e.QueuedAllocations, f.Verbose)
	if e.BlockedEval != "" {
		f.Env.Out.Printf("    %s\n", rollout.Remainder(f.id(e.BlockedEval), e.FailedTGAllocs))
	}
}

func nodeName(a *api.AllocationListStub) string {
	if a.NodeName != "" {
		return a.NodeName
	}
	return kit.ID(a.NodeID, false)
}
