package follow

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
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
		now, meta, err := f.look(ctx, job, o)
		if err != nil {
			return false, nil, err
		}
		if last == nil {
			f.made(first, now.Allocations)
		}
		last = rollout.Assess(now, time.Now())
		t.report(last)
		if err := t.deployment(ctx, job, last, now.Deployment); err != nil {
			return false, nil, err
		}
		return last.Outcome != rollout.Going && !(last.Outcome == rollout.Unplaced && f.Wait), meta, nil
	})
	if err != nil {
		return f.gaveUp(ctx, err, "berth job status "+job.Typed())
	}
	if past := last.Past(first.CreateIndex); past != "" {
		f.Env.Err.Notice(past)
	}
	return f.outcome(ctx, last)
}

// look reads how the job stands. It is an error if the version that is followed is no longer the job's.
func (f *Follower) look(
	ctx context.Context, job Registered, o *api.QueryOptions,
) (*api.JobRollout, *api.QueryMeta, error) {
	now, meta, err := f.Client.Jobs().Rollout(ctx, job.ID, o)
	switch {
	case api.IsNotFound(err):
		return nil, nil, kit.Fail(fault.NotFound, "", "job %q is gone: somebody has purged it", job.ID)
	case err != nil:
		return nil, nil, kit.Doing(err, "follow", "job", job.ID)
	case now.Job == nil:
		return nil, nil, kit.Fail(fault.Internal, "", "follow job %q: the agent's answer has no job", job.ID)
	case kit.Value(now.Job.JobModifyIndex) > job.JobModifyIndex:
		return nil, nil, f.overtaken(ctx, job, now.Job)
	}
	return now, meta, nil
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
