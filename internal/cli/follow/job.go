package follow

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/cli/kit"
	"berth/internal/cli/rollout"
)

// Registered names the version of a job that is followed.
type Registered struct {
	kit.Ref
	JobModifyIndex uint64 // of the registration
	Eval           string // that the registration made
	EvalIndex      uint64 // at which it made it; 0: that is not known
}

// Job follows a version of a job, with everything that comes of it: replacements, successors that wait for those before
// them, further evaluations. It ends when all that is wanted is healthy and what it replaces has ended; when a batch
// job has completed; or when something is not well, with an error that says what, and what comes next. What has no
// place is reported and ends it with an Exit, unless Wait is set.
func (f *Follower) Job(ctx context.Context, job Registered) error {
	first, err := f.ended(ctx, job.Eval, job.Namespace, job.EvalIndex)
	unplaced := err == nil && len(first.FailedTGAllocs) > 0 && !f.Wait
	if unplaced {
		err = f.madeBy(ctx, first, job.Namespace)
	}
	switch {
	case err != nil:
		return f.gaveUp(ctx, err, "berth job status "+job.Typed())
	case unplaced:
		return &kit.Exit{Code: kit.ExitUnplaced}
	}
	t := &reporter{f: f, first: first, stories: map[string]*story{}, reported: map[string]bool{}}
	var last *rollout.Rollout
	err = Watch(ctx, job.Namespace, func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		r, deployment, read, err := f.look(ctx, job, o)
		if err != nil {
			return false, nil, err
		}
		meta := read.job
		if last == nil {
			f.made(first, read.allocs)
		}
		last = r
		t.report(r)
		if err := t.deployment(ctx, job, r, deployment); err != nil {
			return false, nil, err
		}
		if r.Outcome == rollout.Going || r.Outcome == rollout.Unplaced && f.Wait {
			return false, meta, nil
		}
		// What was read in several steps is judged only if nothing changed in between.
		if read.rest <= meta.Index {
			return true, meta, nil
		}
		_, now, err := f.Client.Jobs().Get(ctx, job.ID, job.Query())
		return err == nil && now.Index == meta.Index, meta, kit.Doing(err, "follow", "job", job.ID)
	})
	if err != nil {
		return f.gaveUp(ctx, err, "berth job status "+job.Typed())
	}
	if past := last.Past(first.CreateIndex); past != "" {
		f.Env.Err.Notice(past)
	}
	return f.outcome(ctx, last)
}

// steps are the indexes of what was read of a job in several steps.
type steps struct {
	job    *api.QueryMeta // of the first: the job, whose index is that of all that belongs to it
	rest   uint64         // the highest of the others
	allocs []*api.AllocationListStub
}

// look reads how the job stands, and its last deployment. It is an error if the version that is followed is no longer
// the job's.
func (f *Follower) look(
	ctx context.Context, job Registered, o *api.QueryOptions,
) (*rollout.Rollout, *api.Deployment, *steps, error) {
	now, meta, err := f.Client.Jobs().Get(ctx, job.ID, o)
	switch {
	case api.IsNotFound(err):
		return nil, nil, nil, kit.Fail(fault.NotFound, "", "job %q is gone: somebody has purged it", job.ID)
	case err != nil:
		return nil, nil, nil, kit.Doing(err, "follow", "job", job.ID)
	case kit.Value(now.JobModifyIndex) > job.JobModifyIndex:
		return nil, nil, nil, f.overtaken(ctx, job, now)
	}
	jobs, p := f.Client.Jobs(), rollout.Picture{Job: now}
	var deployment *api.Deployment
	var ofAllocs, ofEvals, ofDeployment *api.QueryMeta
	err = sideBySide(ctx, func(ctx context.Context) (err error) {
		p.Allocations, ofAllocs, err = jobs.Allocations(ctx, job.ID, false, job.Query())
		return kit.Doing(err, "list the allocations of", "job", job.ID)
	}, func(ctx context.Context) (err error) {
		open := job.Query()
		open.Params = map[string]string{"open": "true"} // one that runs for long has many that are over
		p.Evaluations, ofEvals, err = jobs.Evaluations(ctx, job.ID, open)
		return kit.Doing(err, "list the evaluations of", "job", job.ID)
	}, func(ctx context.Context) (err error) {
		deployment, ofDeployment, err = jobs.Deployment(ctx, job.ID, job.Query())
		return kit.Doing(err, "read the deployment of", "job", job.ID)
	})
	if err != nil {
		return nil, nil, nil, err
	}
	read := &steps{job: meta, rest: max(ofAllocs.Index, ofEvals.Index, ofDeployment.Index), allocs: p.Allocations}
	return rollout.Assess(p, time.Now()), deployment, read, nil
}

// sideBySide asks for several things at once, and waits for all of them. The error is that of the first in the order
// in which they are given.
func sideBySide(ctx context.Context, asks ...func(context.Context) error) error {
	g, gctx := lifecycle.NewGroup(ctx)
	errs := make([]error, len(asks))
	for i, ask := range asks {
		g.Go("ask", func() error { errs[i] = ask(gctx); return nil })
	}
	if err := g.Wait(); err != nil { // one of them panicked
		return err
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// overtaken says what became of a job whose version is no longer the one that is followed: its deployment may have
// failed, and the servers have gone back.
func (f *Follower) overtaken(ctx context.Context, job Registered, now *api.Job) error {
	id := kit.Value(now.ID)
	list, _, err := f.Client.Jobs().Deployments(ctx, id, false, job.Query())
	if err != nil {
		return kit.Doing(err, "list the deployments of", "job", id)
	}
	for _, d := range list {
		if d.JobSpecModifyIndex == job.JobModifyIndex && d.Status == api.DeploymentStatusFailed {
			return f.back(ctx, job.Ref, d)
		}
	}
	if kit.Value(now.Stop) {
		return kit.Fail(fault.Conflict, "", "job %q was stopped before all of it was as wanted", id)
	}
	typed := ids.Typed(ids.Namespace(kit.Value(now.Namespace)), id)
	return kit.Fail(fault.Conflict, `see "berth job history `+typed+`"`,
		"job %q was changed again, to version %d, before all of this one was as wanted", id, kit.Value(now.Version))
}

// outcome says how it ended.
func (f *Follower) outcome(ctx context.Context, r *rollout.Rollout) error {
	switch r.Outcome {
	case rollout.Done:
		f.heading("%s", r.Sentence())
		return nil
	case rollout.Unplaced:
		f.heading("Not everything could be placed")
		f.unplaced(r)
		return &kit.Exit{Code: kit.ExitUnplaced}
	case rollout.Short:
		return fault.New(fault.Conflict, "", "", r.Sentence())
	}
	hint := ""
	for _, t := range r.Troubles {
		if t.Final {
			f.Stderr(ctx, f.Env.Err, t)
			hint = fmt.Sprintf(`see "berth alloc status %s"`, f.id(t.Alloc.ID))
			break
		}
	}
	return kit.Fail(fault.Conflict, hint, "%s", r.Sentence())
}

// unplaced tells what has no place, and why.
func (f *Follower) unplaced(r *rollout.Rollout) {
	for _, e := range r.Unplaced {
		Explain(f.Env.Out, "    ", e.FailedTGAllocs, e.QueuedAllocations, f.Verbose)
		f.Env.Out.Printf("    %s\n", rollout.Remainder(f.id(e.ID), e.FailedTGAllocs))
	}
}
