package api

import "time"

// JobListStub is a job in a list.
type JobListStub struct {
	ID                string
	ParentID          string
	Name              string
	Namespace         string
	Datacenters       []string
	NodePool          string
	Multiregion       *Multiregion
	Type              string
	Priority          int
	Periodic          bool
	ParameterizedJob  bool
	Stop              bool
	Status            string
	StatusDescription string
	JobSummary        *JobSummary
	CreateIndex       uint64
	ModifyIndex       uint64
	JobModifyIndex    uint64
	SubmitTime        int64 // Unix nanoseconds
	Meta              map[string]string
}

// JobRollout is how far a job is on its way to what is wanted of it, at one moment.
type JobRollout struct {
	Job         *Job
	Allocations []*AllocationListStub
	Evaluations []*Evaluation // that are not over
	Deployment  *Deployment   // the newest, or nil
}

// JobSummary counts the allocations of a job by group and status.
type JobSummary struct {
	JobID       string
	Namespace   string
	Summary     map[string]TaskGroupSummary
	Children    *JobChildrenSummary
	CreateIndex uint64
	ModifyIndex uint64
}

// TaskGroupSummary counts the allocations of one group.
type TaskGroupSummary struct {
	Queued   int
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// JobChildrenSummary counts the children of a periodic or parameterized job.
type JobChildrenSummary struct {
	Pending int64
	Running int64
	Dead    int64
}

// JobSubmission is the source of a job as its author wrote it, kept verbatim.
type JobSubmission struct {
	Source         string
	Format         string // hcl2 or json
	VariableFlags  map[string]string
	Variables      string
	Namespace      string `json:",omitempty"`
	JobID          string `json:",omitempty"`
	Version        uint64 `json:",omitempty"`
	JobModifyIndex uint64 `json:",omitempty"`
}

// JobRegisterRequest is the body of job register.
type JobRegisterRequest struct {
	Submission        *JobSubmission
	Job               *Job
	EnforceIndex      bool   `json:",omitempty"`
	JobModifyIndex    uint64 `json:",omitempty"`
	PolicyOverride    bool   `json:",omitempty"`
	PreserveCounts    bool   `json:",omitempty"`
	PreserveResources bool   `json:",omitempty"`
	EvalPriority      int    `json:",omitempty"`
	// Again has what has completed, and what has failed for good, run once more; an addition of Berth. What runs, runs
	// on.
	Again bool `json:",omitempty"`
	WriteRequest
}

// JobRegisterResponse is the reply to job register, evaluate, revert and scale.
type JobRegisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	Warnings        string
	Outcome         string `json:",omitempty"` // created, updated or unchanged; an addition of Berth
	QueryMeta
}

// JobDeregisterResponse is the reply to job stop.
type JobDeregisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	VolumeEvalID    string
	VolumeEvalIndex uint64
	Warnings        string `json:",omitempty"` // an addition of Berth
	QueryMeta
}

// JobValidateRequest is the body of job validate.
type JobValidateRequest struct {
	Job *Job
	WriteRequest
}

// JobValidateResponse is the reply to job validate.
type JobValidateResponse struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
}

// JobPlanRequest is the body of job plan.
type JobPlanRequest struct {
	Job            *Job
	Diff           bool
	PolicyOverride bool
	WriteRequest
}

// JobPlanResponse is the reply to job plan: what register would do.
type JobPlanResponse struct {
	Annotations        *PlanAnnotations
	FailedTGAllocs     map[string]*AllocationMetric
	JobModifyIndex     uint64
	CreatedEvals       []*Evaluation
	Diff               *JobDiff
	NextPeriodicLaunch *time.Time
	Warnings           string
	Index              uint64
	NewVolumes         []string `json:",omitempty"` // ids of those that register would make; an addition of Berth
}

// PlanAnnotations sums up a plan.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates
	PreemptedAllocs  []*AllocationListStub
}

// DesiredUpdates counts what would happen to the allocations of one group.
type DesiredUpdates struct {
	Ignore            uint64
	Place             uint64
	Migrate           uint64
	Stop              uint64
	InPlaceUpdate     uint64
	DestructiveUpdate uint64
	Canary            uint64
	Preemptions       uint64
	Disconnect        uint64
	Reconnect         uint64
	RescheduleNow     uint64
	RescheduleLater   uint64
}

// JobEvaluateRequest is the body of job eval.
type JobEvaluateRequest struct {
	JobID       string
	EvalOptions EvalOptions
	WriteRequest
}

// EvalOptions changes how an evaluation is made.
type EvalOptions struct {
	ForceReschedule bool
}

// JobVersionsResponse are the kept versions of a job, newest first.
type JobVersionsResponse struct {
	Versions []*Job
	Diffs    []*JobDiff
	QueryMeta
}

// JobsParseRequest is the body of jobs/parse.
type JobsParseRequest struct {
	JobHCL       string
	Variables    string
	Canonicalize bool
	WriteRequest
}
