package api

import "time"

// The statuses of an evaluation.
const (
	EvalStatusBlocked   = "blocked"
	EvalStatusPending   = "pending"
	EvalStatusComplete  = "complete"
	EvalStatusFailed    = "failed"
	EvalStatusCancelled = "canceled"
)

// Evaluation is one request to the scheduler and what came of it. Empty members are left out.
type Evaluation struct {
	ID                   string
	Namespace            string
	Priority             int
	Type                 string
	TriggeredBy          string
	JobID                string
	JobModifyIndex       uint64 `json:",omitempty"`
	NodeID               string `json:",omitempty"`
	NodeModifyIndex      uint64 `json:",omitempty"`
	DeploymentID         string `json:",omitempty"`
	Status               string
	StatusDescription    string                       `json:",omitempty"`
	Wait                 time.Duration                `json:",omitempty"`
	WaitUntil            *time.Time                   `json:",omitempty"`
	NextEval             string                       `json:",omitempty"`
	PreviousEval         string                       `json:",omitempty"`
	BlockedEval          string                       `json:",omitempty"`
	RelatedEvals         []*EvaluationStub            `json:",omitempty"`
	FailedTGAllocs       map[string]*AllocationMetric `json:",omitempty"`
	PlanAnnotations      *PlanAnnotations             `json:",omitempty"`
	ClassEligibility     map[string]bool              `json:",omitempty"`
	EscapedComputedClass bool                         `json:",omitempty"`
	QuotaLimitReached    string                       `json:",omitempty"`
	AnnotatePlan         bool                         `json:",omitempty"`
	QueuedAllocations    map[string]int               `json:",omitempty"`
	SnapshotIndex        uint64                       `json:",omitempty"`
	CreateIndex          uint64
	ModifyIndex          uint64
	CreateTime           int64 // Unix nanoseconds
	ModifyTime           int64 // Unix nanoseconds
}

// EvaluationStub is an evaluation related to another.
type EvaluationStub struct {
	ID                string
	Namespace         string
	Priority          int
	Type              string
	TriggeredBy       string
	JobID             string
	NodeID            string
	DeploymentID      string
	Status            string
	StatusDescription string
	WaitUntil         *time.Time
	NextEval          string
	PreviousEval      string
	BlockedEval       string
	CreateIndex       uint64
	ModifyIndex       uint64
	CreateTime        int64 // Unix nanoseconds
	ModifyTime        int64 // Unix nanoseconds
}

// EvalCountResponse says how many evaluations there are.
type EvalCountResponse struct {
	Count int
	QueryMeta
}
