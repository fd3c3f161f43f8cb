package fsm

import (
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
)

// SchemaServices is the number of the cluster from which on jobs have services.
const SchemaServices = 11

// Outcomes of a registration.
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
)

// JobRegister stores a job. It becomes a new version only if what the user wrote differs from the present version.
type JobRegister struct {
	Job          *job.Job
	Submission   *job.Submission
	EnforceIndex bool
	ModifyIndex  uint64 // expected, with EnforceIndex
	// PreserveCounts keeps the present version's group counts.
	PreserveCounts bool
	// Again has what has completed, and what has failed for good, run once more.
	Again        bool `cbor:",omitempty"`
	EvalPriority int  // 0: the job's
	Seed         string
}

// JobRegistered is the result of JobRegister and JobDeregister.
type JobRegistered struct {
	Outcome        string
	Version        uint64
	JobModifyIndex uint64
	Eval           *eval.Eval // nil: nothing to follow
}

// JobDeregister asks a job to stop, and with Purge forgets it; its allocs go by the evaluation that this makes.
type JobDeregister struct {
	Namespace       ids.Namespace
	Job             ids.Job
	Purge           bool
	NoShutdownDelay bool
	EvalPriority    int
	Seed            string
}
