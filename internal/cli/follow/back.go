package follow

import (
	"context"
	"errors"
	"fmt"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// back says how a deployment ended that is not successful, and follows what comes of it: where the servers go back to
// an older version, the deployment of that one. It is an error whatever becomes of that, for what was asked for is not
// what runs.
func (f *Follower) back(ctx context.Context, ref kit.Ref, d *api.Deployment) error {
	failed := f.deploymentFailed(d)
	if d.Status != api.DeploymentStatusFailed || !reverts(d) {
		return failed
	}
	now, _, err := f.Client.Jobs().Get(ctx, ref.ID, ref.Query())
	if err != nil {
		return errors.Join(failed, kit.Doing(err, "read", "job", ref.ID))
	}
	version := kit.Value(now.Version)
	if version <= d.JobVersion || kit.Value(now.Stop) {
		return failed // nothing was gone back to
	}
	f.heading("%s", d.StatusDescription)
	after, err := f.begun(ctx, ref, now)
	switch {
	case err != nil:
		return errors.Join(failed, err)
	case after == nil:
		return kit.Fail(fault.Conflict, `see "berth job status `+ref.Typed()+`"`,
			"the deployment of version %d of job %q has not succeeded, and of version %d, which took its place, nothing "+
				"had to be deployed", d.JobVersion, ref.ID, version)
	}
	if err := f.Deployment(ctx, after.ID, ref.Namespace, api.DeploymentStatusSuccessful); err != nil {
		return errors.Join(failed, err)
	}
	return kit.Fail(fault.Conflict, fmt.Sprintf(`see "berth deployment status %s"`, f.id(d.ID)),
		"the deployment of version %d of job %q has not succeeded: %s; version %d, which says what that one said, runs "+
			"instead", d.JobVersion, ref.ID, d.StatusDescription, version)
}

// begun is the deployment of the present version of a job, once the scheduler has looked at that; nil: it has none.
func (f *Follower) begun(ctx context.Context, ref kit.Ref, now *api.Job) (*api.Deployment, error) {
	evals, _, err := f.Client.Jobs().Evaluations(ctx, ref.ID, ref.Query())
	if err != nil {
		return nil, kit.Doing(err, "list the evaluations of", "job", ref.ID)
	}
	var first *api.Evaluation // of its registration
	for _, e := range evals {
		if e.JobModifyIndex == kit.Value(now.JobModifyIndex) && (first == nil || e.CreateIndex < first.CreateIndex) {
			first = e
		}
	}
	if first != nil {
		var nowhere *kit.Exit // that not all of it has a place hinders nothing of what has one
		if _, err := f.Evaluation(ctx, first.ID, ref.Namespace); err != nil && !errors.As(err, &nowhere) {
			return nil, err
		}
	}
	d, _, err := f.Client.Jobs().Deployment(ctx, ref.ID, ref.Query())
	if err != nil {
		return nil, kit.Doing(err, "read the deployment of", "job", ref.ID)
	}
	if d == nil || d.JobSpecModifyIndex != kit.Value(now.JobModifyIndex) {
		return nil, nil
	}
	return d, nil
}
