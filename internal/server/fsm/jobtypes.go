package fsm

import "berth/internal/model/job"

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
