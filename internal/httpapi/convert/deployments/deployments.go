// Package deployments owns the public shapes of deployments and of what is asked of jobs and their versions. Only
// httpapi imports it.
package deployments

import (
	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/wire"
)

// Deployment is the public shape of a deployment.
func Deployment(v *progress.View) *api.Deployment {
	d := v.Deployment
	out := &api.Deployment{
		ID:                 string(d.ID),
		Namespace:          string(d.Namespace),
		JobID:              string(d.Job),
		JobVersion:         d.JobVersion,
		JobModifyIndex:     d.JobModifyIndex,
		JobSpecModifyIndex: d.JobModifyIndex,
		JobCreateIndex:     d.JobCreateIndex,
		TaskGroups:         make(map[string]*api.DeploymentState, len(d.Groups)),
		Status:             d.Status,
		StatusDescription:  d.StatusDescription,
		EvalPriority:       d.EvalPriority,
		CreateIndex:        d.CreateIndex,
		ModifyIndex:        d.ModifyIndex,
		CreateTime:         d.CreateTime,
		ModifyTime:         d.ModifyTime,
	}
	for name, want := range d.Groups { // each its own entry
		is := v.Groups[name]
		by := is.By // of none the zero time, which clients show as none
		state := &api.DeploymentState{
			AutoRevert:        want.AutoRevert,
			AutoPromote:       want.AutoPromote,
			ProgressDeadline:  want.ProgressDeadline,
			RequireProgressBy: &by,
			Promoted:          want.Promoted,
			DesiredCanaries:   want.DesiredCanaries,
			DesiredTotal:      want.DesiredTotal,
			PlacedAllocs:      is.Placed,
			HealthyAllocs:     is.Healthy,
			UnhealthyAllocs:   is.Unhealthy,
		}
		for _, id := range is.Canaries {
			state.PlacedCanaries = append(state.PlacedCanaries, string(id))
		}
		out.TaskGroups[name] = state
	}
	return out
}

// Key is a deployment's place in pages.
func Key(v *progress.View) string { return wire.KeyOfDeployment(v.Deployment) }

// Latest is the newest of the deployments that were read, or null.
func Latest(out *wire.List[*progress.View]) *api.Deployment {
	if len(out.Items) == 0 {
		return nil
	}
	return Deployment(out.Items[0])
}

// All are the public shapes of deployments.
func All(out *wire.List[*progress.View]) []*api.Deployment {
	list := make([]*api.Deployment, 0, len(out.Items))
	for _, v := range out.Items {
		list = append(list, Deployment(v))
	}
	return list
}

// Written answers what changes a deployment.
func Written(out *wire.DeploymentReply) *api.DeploymentUpdateResponse {
	return &api.DeploymentUpdateResponse{
		EvalID:                string(out.Eval),
		EvalCreateIndex:       out.EvalCreateIndex,
		DeploymentModifyIndex: out.DeploymentModifyIndex,
		RevertedJobVersion:    out.RevertedJobVersion,
		Index:                 out.Index,
	}
}

// ToPromote reads which groups of a deployment are to be promoted.
func ToPromote(in *api.DeploymentPromoteRequest, ns ids.Namespace, id string) (*wire.DeploymentPromoteRequest, error) {
	ref, err := named(ns, id, in.DeploymentID)
	switch {
	case err != nil:
	case in.All && len(in.Groups) > 0:
		err = fault.New(fault.Invalid, "", "leave Groups out, or All", "All groups are to be promoted, and Groups too")
	case !in.All && len(in.Groups) == 0:
		err = fault.New(fault.Invalid, "", "name them in Groups, or set All", "no group to promote is named")
	}
	return &wire.DeploymentPromoteRequest{DeploymentRequest: ref, Groups: in.Groups}, err
}

// ToFail reads which deployment is to be failed.
func ToFail(in *api.DeploymentFailRequest, ns ids.Namespace, id string) (*wire.DeploymentRequest, error) {
	ref, err := named(ns, id, in.DeploymentID)
	return &ref, err
}

// ToPause reads whether a deployment is to be held or to go on.
func ToPause(in *api.DeploymentPauseRequest, ns ids.Namespace, id string) (*wire.DeploymentPauseRequest, error) {
	ref, err := named(ns, id, in.DeploymentID)
	return &wire.DeploymentPauseRequest{DeploymentRequest: ref, Pause: in.Pause}, err
}

// ToHealth reads what a person says of the health of allocs.
func ToHealth(
	in *api.DeploymentAllocHealthRequest, ns ids.Namespace, id string,
) (*wire.DeploymentHealthRequest, error) {
	ref, err := named(ns, id, in.DeploymentID)
	out := &wire.DeploymentHealthRequest{DeploymentRequest: ref}
	for _, a := range in.HealthyAllocationIDs {
		out.Healthy = append(out.Healthy, ids.Alloc(a))
	}
	for _, a := range in.UnhealthyAllocationIDs {
		out.Unhealthy = append(out.Unhealthy, ids.Alloc(a))
	}
	if err == nil && len(out.Healthy)+len(out.Unhealthy) == 0 {
		err = fault.New(fault.Invalid, "", "name them in HealthyAllocationIDs or UnhealthyAllocationIDs",
			"no allocation is named")
	}
	return out, err
}

// ToRevert reads which version of a job is to come back.
func ToRevert(in *api.JobRevertRequest, ns ids.Namespace, id string) (*wire.JobRevertRequest, error) {
	return &wire.JobRevertRequest{
		Namespace: ns,
		Job:       ids.Job(id),
		Version:   in.JobVersion,
		Prior:     in.EnforcePriorVersion,
	}, same("JobID", in.JobID, id)
}

// ToStable reads whether a version of a job is one to go back to.
func ToStable(in *api.JobStabilityRequest, ns ids.Namespace, id string) (*wire.JobStableRequest, error) {
	return &wire.JobStableRequest{
		Namespace: ns,
		Job:       ids.Job(id),
		Version:   in.JobVersion,
		Stable:    in.JobStable,
	}, same("JobID", in.JobID, id)
}

// Stabilized answers it.
func Stabilized(out *wire.Written) (uint64, any) {
	return out.Index, &api.JobStabilityResponse{JobModifyIndex: out.Index}
}

// ToEvaluate reads how a job is to be looked at again.
func ToEvaluate(in *api.JobEvaluateRequest, ns ids.Namespace, id string) (*wire.JobEvaluateRequest, error) {
	return &wire.JobEvaluateRequest{
		Namespace:       ns,
		Job:             ids.Job(id),
		ForceReschedule: in.EvalOptions.ForceReschedule,
	}, same("JobID", in.JobID, id)
}

// named is the deployment in the path, by its whole id; the body names the same or none.
func named(ns ids.Namespace, id, body string) (wire.DeploymentRequest, error) {
	err := same("DeploymentID", body, id)
	if err == nil && !ids.IsUUID(id) {
		err = fault.New(fault.Conflict, "", "",
			"deployment lookup failed: index error: UUID must be 36 characters")
	}
	return wire.DeploymentRequest{Namespace: ns, Deployment: ids.Deployment(id)}, err
}

func same(member, body, path string) error {
	if body != "" && body != path {
		return fault.New(fault.Invalid, "", "", member+` "`+body+`" does not match the path's "`+path+`"`)
	}
	return nil
}
