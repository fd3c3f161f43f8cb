package wire

import "berth/internal/base/ids"

// Methods by which jobs are launched that others describe.
var (
	JobDispatch = Unary[JobDispatchRequest, JobLaunchReply]("Job.Dispatch")
	JobForce    = Unary[JobForceRequest, JobLaunchReply]("Job.Force")
)

// JobDispatchRequest launches a parameterized job.
type JobDispatchRequest struct {
	Namespace        ids.Namespace
	Job              ids.Job
	Payload          []byte
	Meta             map[string]string
	IdempotencyToken string
	IDPrefix         string
	Priority         int // 0: the job's
}

// JobForceRequest launches a periodic job out of its time.
type JobForceRequest struct {
	Namespace ids.Namespace
	Job       ids.Job
}

// JobLaunchReply names what was launched, and the evaluation to follow.
type JobLaunchReply struct {
	Child           ids.Job
	JobCreateIndex  uint64
	Eval            ids.Eval // empty: it was launched before
	EvalCreateIndex uint64
	Index           uint64
}

// ChildCounts counts by status what a job has launched.
type ChildCounts struct{ Pending, Running, Dead int }
