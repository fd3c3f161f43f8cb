// Package eval owns evaluations: requests to the scheduler to look at a job again, and their outcome.
package eval

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
)

// Status values.
const (
	StatusBlocked  = "blocked"
	StatusPending  = "pending"
	StatusComplete = "complete"
	StatusFailed   = "failed"
	StatusCanceled = "canceled"
)

// Triggers, as clients of this API know them.
const (
	TriggerJobRegister   = "job-register"
	TriggerJobDeregister = "job-deregister"
	TriggerNodeUpdate    = "node-update"
	TriggerAllocStop     = "alloc-stop"
	TriggerAllocFailure  = "alloc-failure"
	TriggerRetryFailed   = "alloc-failure"
	TriggerRollingUpdate = "rolling-update"
	TriggerQueuedAllocs  = "queued-allocs"
	TriggerMaxPlans      = "max-plan-attempts"
	TriggerDeployment    = "deployment-watcher"
	TriggerPeriodic      = "periodic-job"
	TriggerScaling       = "job-scaling"
	TriggerMaxDisconnect = "max-disconnect-timeout"
	TriggerReconnect     = "reconnect"
)

// Eval asks for one run of the scheduler over one job (and, for system jobs, over one node's change).
type Eval struct {
	ID                ids.Eval
	Namespace         ids.Namespace
	Priority          int
	Type              string // of the job
	TriggeredBy       string
	Job               ids.Job
	JobModifyIndex    uint64
	Node              ids.Node
	NodeModifyIndex   uint64
	Deployment        ids.Deployment `cbor:",omitempty"` // that it belongs to; empty: none
	Status            string
	StatusDescription string
	WaitUntil         time.Time
	NextEval          ids.Eval
	PreviousEval      ids.Eval
	BlockedEval       ids.Eval
	FailedTGAllocs    map[string]*alloc.Metric
	QueuedAllocations map[string]int
	SnapshotIndex     uint64
	CreateIndex       uint64
	ModifyIndex       uint64
	CreateTime        int64 // nanoseconds since the epoch
	ModifyTime        int64
}

// Terminal reports whether nothing more will happen to it.
func (e *Eval) Terminal() bool {
	return e.Status == StatusComplete || e.Status == StatusFailed || e.Status == StatusCanceled
}
