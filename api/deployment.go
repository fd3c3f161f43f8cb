package api

import "time"

// Deployment is the replacement of one version of a job by another.
type Deployment struct {
	ID                 string
	Namespace          string
	JobID              string
	JobVersion         uint64
	JobModifyIndex     uint64
	JobSpecModifyIndex uint64
	JobCreateIndex     uint64
	IsMultiregion      bool
	TaskGroups         map[string]*DeploymentState
	Status             string
	StatusDescription  string
	EvalPriority       int
	CreateIndex        uint64
	ModifyIndex        uint64
	CreateTime         int64 // Unix nanoseconds
	ModifyTime         int64 // Unix nanoseconds
}

// DeploymentState is the progress of one group.
type DeploymentState struct {
	AutoRevert        bool
	AutoPromote       bool
	ProgressDeadline  time.Duration
	RequireProgressBy *time.Time
	Promoted          bool
	PlacedCanaries    []string
	DesiredCanaries   int
	DesiredTotal      int
	PlacedAllocs      int
	HealthyAllocs     int
	UnhealthyAllocs   int
}

// The statuses of a deployment.
const (
	DeploymentStatusRunning    = "running"
	DeploymentStatusPaused     = "paused"
	DeploymentStatusSuccessful = "successful"
	DeploymentStatusFailed     = "failed"
	DeploymentStatusCancelled  = "cancelled" // spelled otherwise than that of evaluations
)

// DeploymentPromoteRequest has canaries take the place of what they are tried against.
type DeploymentPromoteRequest struct {
	DeploymentID string
	All          bool     // all groups that have canaries
	Groups       []string // or these
	PromotedAt   int64    // not read
}

// DeploymentFailRequest ends a deployment.
type DeploymentFailRequest struct{ DeploymentID string }

// DeploymentPauseRequest holds a deployment, or lets it go on.
type DeploymentPauseRequest struct {
	DeploymentID string
	Pause        bool
}

// DeploymentAllocHealthRequest says by hand which allocations are healthy.
type DeploymentAllocHealthRequest struct {
	DeploymentID           string
	HealthyAllocationIDs   []string
	UnhealthyAllocationIDs []string
}

// DeploymentUpdateResponse answers what changes a deployment.
type DeploymentUpdateResponse struct {
	EvalID                string // empty: nothing to follow
	EvalCreateIndex       uint64
	DeploymentModifyIndex uint64
	RevertedJobVersion    *uint64 // the version that was gone back to
	Index                 uint64
}

// JobRevertRequest registers a version of a job again as its newest one.
type JobRevertRequest struct {
	JobID               string
	JobVersion          uint64
	EnforcePriorVersion *uint64 // only if this is the present version
}

// JobStabilityRequest says by hand whether a version of a job is one to go back to.
type JobStabilityRequest struct {
	JobID      string
	JobVersion uint64
	JobStable  bool
}

// JobStabilityResponse answers it.
type JobStabilityResponse struct{ JobModifyIndex uint64 }
