package wire

import (
	"berth/internal/base/ids"
	"berth/internal/model/job"
)

// Methods by which groups of jobs get other counts.
var (
	JobScale          = Unary[JobScaleRequest, JobRegisterReply]("Job.Scale")
	JobScaleStatus    = Unary[Ref[ids.Job], One[JobScaling]]("Job.ScaleStatus")
	ScalingPolicyList = Unary[ScalingPoliciesRequest, List[*ScalingPolicy]]("Scaling.Policies")
	ScalingPolicyGet  = Unary[Ref[ids.Scaling], One[ScalingPolicy]]("Scaling.Policy")
)

// JobScaleRequest gives a group another count, and says why; without a count it says something alone.
type JobScaleRequest struct {
	Namespace   ids.Namespace
	Job         ids.Job
	Group       string
	Count       *int64
	Message     string
	Error       bool
	Meta        map[string]any
	ModifyIndex uint64 // the job must have this JobModifyIndex; 0: any
}

// JobScaling is how the groups of a job are scaled.
type JobScaling struct {
	Namespace      ids.Namespace
	Job            ids.Job
	JobCreateIndex uint64
	JobModifyIndex uint64
	Stopped        bool
	Groups         map[string]GroupScaling
}

// GroupScaling is the count of a group, what there is of it, and what was done and said of its count, newest first.
type GroupScaling struct {
	Desired, Placed, Running, Healthy, Unhealthy int
	Events                                       []*job.ScalingEvent
}

// ScalingPoliciesRequest chooses among the policies.
type ScalingPoliciesRequest struct {
	Query
	Job  ids.Job // empty: of all
	Type string  // empty: all
}

// ScalingPolicy is a policy with what it is of.
type ScalingPolicy struct {
	ID          ids.Scaling
	Namespace   ids.Namespace
	Job         ids.Job
	Group       string
	Task        string // empty: of the group
	Policy      *job.ScalingPolicy
	CreateIndex uint64
	ModifyIndex uint64
}
