// Package launches owns the translation of what is said of jobs that launch others. Only httpapi and convert import it.
package launches

import (
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/derive/periodic"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// Counts are the children of a job by status.
func Counts(v *wire.JobView) *api.JobChildrenSummary {
	return &api.JobChildrenSummary{
		Pending: int64(v.Children.Pending),
		Running: int64(v.Children.Running),
		Dead:    int64(v.Children.Dead),
	}
}

// Next is when a job is launched by the clock; nil: never.
func Next(j *job.Job) *time.Time {
	if at := periodic.NextLaunch(j, time.Now()); !at.IsZero() {
		at = at.UTC()
		return &at
	}
	return nil
}

// ToDispatch asks for a dispatch.
func ToDispatch(in *api.JobDispatchRequest, ns ids.Namespace, id, token string) *wire.JobDispatchRequest {
	return &wire.JobDispatchRequest{
		Namespace:        ns,
		Job:              ids.Job(id),
		Payload:          in.Payload,
		Meta:             in.Meta,
		IdempotencyToken: token,
		IDPrefix:         in.IdPrefixTemplate,
		Priority:         in.Priority,
	}
}

// Dispatched answers a dispatch.
func Dispatched(out *wire.JobLaunchReply) (uint64, any) {
	return out.Index, &api.JobDispatchResponse{
		DispatchedJobID: string(out.Child),
		EvalID:          string(out.Eval),
		EvalCreateIndex: out.EvalCreateIndex,
		JobCreateIndex:  out.JobCreateIndex,
		Index:           out.Index,
	}
}

// Forced answers a launch out of time.
func Forced(out *wire.JobLaunchReply) (uint64, any) {
	return out.Index, &api.PeriodicForceResponse{
		EvalID:          string(out.Eval),
		EvalCreateIndex: out.EvalCreateIndex,
		Index:           out.Index,
	}
}

// Payload is what a job was dispatched with.
func Payload(v *wire.JobView) any { return &api.JobDispatchPayload{Payload: v.Job.Payload} }
