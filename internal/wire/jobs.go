package wire

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
)

// Methods over jobs, evaluations and allocs, served by the server half.
var (
	JobRegister   = Unary[JobRegisterRequest, JobRegisterReply]("Job.Register")
	JobPlan       = Unary[JobPlanRequest, JobPlanReply]("Job.Plan")
	JobValidate   = Unary[JobValidateRequest, JobValidateReply]("Job.Validate")
	JobDeregister = Unary[JobDeregisterRequest, JobRegisterReply]("Job.Deregister")
	JobStart      = Unary[JobStartRequest, JobRegisterReply]("Job.Start")
	JobEvaluate   = Unary[JobEvaluateRequest, JobRegisterReply]("Job.Evaluate")
	JobGet        = Unary[Ref[ids.Job], One[JobView]]("Job.Get")
	JobList       = Unary[Query, List[*JobView]]("Job.List")
	JobVersions   = Unary[Ref[ids.Job], JobVersionsReply]("Job.Versions")
	JobSubmission = Unary[JobSubmissionRequest, One[job.Submission]]("Job.Submission")
	JobAllocs     = Unary[JobAllocsRequest, AllocListReply]("Job.Allocs")
	JobRollout    = Unary[Ref[ids.Job], JobRolloutReply]("Job.Rollout")
	JobEvals      = Unary[Ref[ids.Job], List[*eval.Eval]]("Job.Evals")
	EvalGet       = Unary[Ref[ids.Eval], EvalReply]("Eval.Get")
	EvalList      = Unary[Query, List[*eval.Eval]]("Eval.List")
	EvalAllocs    = Unary[Ref[ids.Eval], AllocListReply]("Eval.Allocs")
	AllocGet      = Unary[Ref[ids.Alloc], AllocReply]("Alloc.Get")
	AllocList     = Unary[Query, AllocListReply]("Alloc.List")
	AllocStop     = Unary[AllocStopRequest, JobRegisterReply]("Alloc.Stop")
)

// JobRegisterRequest submits a job. Job is canonical and passed shape checks; the server validates against its state
// (namespaces, drivers' mount support, volumes).
type JobRegisterRequest struct {
	Job          *job.Job
	Submission   *job.Submission
	EnforceIndex bool
	ModifyIndex  uint64 // expected, with EnforceIndex
	Priority     int    // of the evaluation; 0: the job's
	// PreserveCounts keeps the running job's group counts.
	PreserveCounts bool
	// Again has what has completed, and what has failed for good, run once more.
	Again    bool     `cbor:",omitempty"`
	Warnings []string // found while converting; come back with the reply
}

// JobRegisterReply names the evaluation to follow.
type JobRegisterReply struct {
	Eval            ids.Eval // empty: nothing to follow
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	Index           uint64
	Warnings        []string
	// Outcome is "created", "updated" or "unchanged".
	Outcome string
}

// JobPlanRequest asks for a dry run.
type JobPlanRequest struct {
	Job      *job.Job
	Warnings []string
}

// JobPlanReply tells what a registration would do. Old is the present version, nil for a new job; the HTTP layer makes
// the textual diff of both.
type JobPlanReply struct {
	Old            *job.Job
	JobModifyIndex uint64
	Annotations    map[string]GroupChanges
	FailedTGAllocs map[string]*alloc.Metric
	NewVolumes     []ids.Volume // that a registration makes
	NodePool       string       // of the job: its own, or that of its namespace; empty: of a server that knows no such
	Warnings       []string
	Index          uint64
}

// GroupChanges counts what an evaluation does to a group.
type GroupChanges struct {
	Ignore, Place, Migrate, Stop, InPlaceUpdate, DestructiveUpdate, Canary, Preemptions uint64
}

// JobValidateRequest asks for the server's validation alone.
type JobValidateRequest struct{ Job *job.Job }

// JobValidateReply lists all errors; DriverConfigValidated says whether a node's driver schema could be consulted.
type JobValidateReply struct {
	DriverConfigValidated bool
	Errors                []string
	Warnings              []string
}

// JobDeregisterRequest stops a job, and with Purge forgets it.
type JobDeregisterRequest struct {
	Namespace       ids.Namespace
	Job             ids.Job
	Purge           bool
	NoShutdownDelay bool
	Priority        int
}

// JobStartRequest has a job that was stopped run again as it was.
type JobStartRequest struct {
	Namespace ids.Namespace
	Job       ids.Job
}

// JobEvaluateRequest makes a new evaluation of a job.
type JobEvaluateRequest struct {
	Namespace       ids.Namespace
	Job             ids.Job
	ForceReschedule bool
}

// JobAllocsRequest names a job in a read of its allocs.
type JobAllocsRequest struct {
	Query
	Job ids.Job
	All bool // also of purged predecessors with the same id
}

// JobRolloutReply is all by which one can tell how far a job is on its way to what is wanted of it, at one index.
type JobRolloutReply struct {
	Meta
	Job        *JobView // nil: there is none
	Allocs     AllocListReply
	Evals      []*eval.Eval // that are not over
	Deployment *progress.View
}

// JobView is a job with what is derived from its allocs and evaluations.
type JobView struct {
	Job                          *job.Job
	Status                       string
	StatusDescription            string
	Summary                      map[string]GroupSummary
	SummaryCreate, SummaryModify uint64
	Children                     ChildCounts `cbor:",omitempty"`
}

// GroupSummary counts a group's allocs by state.
type GroupSummary struct{ Queued, Complete, Failed, Running, Starting, Lost, Unknown int }

// JobVersionsReply lists the stored versions, newest first.
type JobVersionsReply struct {
	Meta
	Versions []*job.Job
	Status   string
}

// JobSubmissionRequest names one version's text.
type JobSubmissionRequest struct {
	Query
	Job     ids.Job
	Version uint64
}

// EvalReply is one evaluation or nil.
type EvalReply struct {
	Meta
	Eval    *eval.Eval
	Related []*eval.Eval
}

// AllocReply is one alloc with its job version, or nil.
type AllocReply struct {
	Meta
	alloc.Bundle
	// Storage tells, per volume alias, where a volume of the alloc stands, in words (volume.Describe).
	Storage []AllocVolume
}

// AllocVolume describes one volume of an alloc for people.
type AllocVolume struct {
	Alias     string
	Volume    ids.Volume
	Plugin    ids.Plugin
	Provider  string
	ReadOnly  bool
	State     string // one sentence
	Path      string // on the node, when published
	LastError string
	Held      bool      // by a claim of the alloc, until its end is certain
	NextTry   time.Time // of the node, after LastError
}

// AllocListReply is a page of allocs.
type AllocListReply struct {
	Meta
	Items     Bundles
	NextToken string
	// Orphans says of which of them nobody decides, and what a person can do. It wakes nobody when it changes.
	Orphans map[ids.Alloc]string
}

// AllocStopRequest asks to stop an alloc and to place its replacement.
type AllocStopRequest struct {
	Namespace       ids.Namespace // that the caller named; the alloc is known by its id
	Alloc           ids.Alloc
	NoShutdownDelay bool
	Reschedule      bool // it is shown as rescheduled, not as migrated
}
