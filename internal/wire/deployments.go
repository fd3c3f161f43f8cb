package wire

import (
	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/model/job"
)

// Methods over deployments and versions of jobs, served by the server half.
var (
	DeploymentList      = Unary[Query, List[*progress.View]]("Deployment.List")
	DeploymentGet       = Unary[Ref[ids.Deployment], One[progress.View]]("Deployment.Get")
	DeploymentAllocs    = Unary[Ref[ids.Deployment], AllocListReply]("Deployment.Allocs")
	DeploymentOfJob     = Unary[JobDeploymentsRequest, List[*progress.View]]("Deployment.OfJob")
	DeploymentPromote   = Unary[DeploymentPromoteRequest, DeploymentReply]("Deployment.Promote")
	DeploymentFail      = Unary[DeploymentRequest, DeploymentReply]("Deployment.Fail")
	DeploymentPause     = Unary[DeploymentPauseRequest, DeploymentReply]("Deployment.Pause")
	DeploymentSetHealth = Unary[DeploymentHealthRequest, DeploymentReply]("Deployment.SetHealth")
	JobRevert           = Unary[JobRevertRequest, JobRegisterReply]("Job.Revert")
	JobStable           = Unary[JobStableRequest, Written]("Job.Stable")
	JobTag              = Unary[JobTagRequest, JobTagReply]("Job.Tag")
	JobUntag            = Unary[JobUntagRequest, Written]("Job.Untag")
)

// JobDeploymentsRequest names a job in a read of its deployments, the newest first.
type JobDeploymentsRequest struct {
	Query
	Job    ids.Job
	All    bool // also of purged predecessors with the same id
	Latest bool // the newest alone
}

// DeploymentRequest names a deployment. Namespace is what the caller named; the deployment is known by its id.
type DeploymentRequest struct {
	Namespace  ids.Namespace
	Deployment ids.Deployment
}

// DeploymentPromoteRequest has canaries take the place of what they are tried against.
type DeploymentPromoteRequest struct {
	DeploymentRequest
	Groups []string // none: all that have canaries
}

// DeploymentPauseRequest holds a deployment, or lets it go on.
type DeploymentPauseRequest struct {
	DeploymentRequest
	Pause bool
}

// DeploymentHealthRequest says by hand which allocs of a deployment are healthy, and which are not.
type DeploymentHealthRequest struct {
	DeploymentRequest
	Healthy, Unhealthy []ids.Alloc
}

// DeploymentReply names the evaluation to follow.
type DeploymentReply struct {
	Eval                  ids.Eval // empty: nothing to follow
	EvalCreateIndex       uint64
	DeploymentModifyIndex uint64
	RevertedJobVersion    *uint64 // the version that was gone back to; nil: none
	Index                 uint64
	Warnings              []string
}

// JobRevertRequest registers a version of a job again as its newest one.
type JobRevertRequest struct {
	Namespace ids.Namespace
	Job       ids.Job
	Version   uint64
	Prior     *uint64 // the present version must be this one; nil: any
}

// JobStableRequest says by hand whether a version of a job is one to go back to.
type JobStableRequest struct {
	Namespace ids.Namespace
	Job       ids.Job
	Version   uint64
	Stable    bool
}

// JobTagRequest names a version of a job.
type JobTagRequest struct {
	Namespace         ids.Namespace
	Job               ids.Job
	Version           *uint64 // nil: the newest
	Name, Description string
}

// JobTagReply is the name as it stands.
type JobTagReply struct {
	Tag   job.VersionTag
	Index uint64
}

// JobUntagRequest takes a name away.
type JobUntagRequest struct {
	Namespace ids.Namespace
	Job       ids.Job
	Name      string
}
