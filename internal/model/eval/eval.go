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
	ID                ids.Eval                 `cbor:",omitzero"`
	Namespace         ids.Namespace            `cbor:",omitzero"`
	Priority          int                      `cbor:",omitzero"`
	Type              string                   `cbor:",omitzero"` // of the job
	TriggeredBy       string                   `cbor:",omitzero"`
	Job               ids.Job                  `cbor:",omitzero"`
	JobModifyIndex    uint64                   `cbor:",omitzero"`
	Node              ids.Node                 `cbor:",omitzero"`
	NodeModifyIndex   uint64                   `cbor:",omitzero"`
	Deployment        ids.Deployment           `cbor:",omitempty"` // that it belongs to; empty: none
	Status            string                   `cbor:",omitzero"`
	StatusDescription string                   `cbor:",omitzero"`
	WaitUntil         time.Time                `cbor:",omitzero"`
	NextEval          ids.Eval                 `cbor:",omitzero"`
	PreviousEval      ids.Eval                 `cbor:",omitzero"`
	BlockedEval       ids.Eval                 `cbor:",omitzero"`
	FailedTGAllocs    map[string]*alloc.Metric `cbor:",omitzero"`
	QueuedAllocations map[string]int           `cbor:",omitzero"`
	SnapshotIndex     uint64                   `cbor:",omitzero"`
	CreateIndex       uint64                   `cbor:",omitzero"`
	ModifyIndex       uint64                   `cbor:",omitzero"`
	CreateTime        int64                    `cbor:",omitzero"` // nanoseconds since the epoch
	ModifyTime        int64                    `cbor:",omitzero"`
}

// Terminal reports whether nothing more will happen to it.
func (e *Eval) Terminal() bool {
	return e.Status == StatusComplete || e.Status == StatusFailed || e.Status == StatusCanceled
}
