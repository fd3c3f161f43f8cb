package api

// JobDispatchRequest is the body of job dispatch.
type JobDispatchRequest struct {
	JobID            string
	Payload          []byte // at most 16 KiB
	Meta             map[string]string
	IdPrefixTemplate string // stands in the id of what is launched
	Priority         int    // 0: the job's
}

// JobDispatchResponse is the reply to job dispatch.
type JobDispatchResponse struct {
	DispatchedJobID string
	EvalID          string // empty: a dispatch with the same token launched it before
	EvalCreateIndex uint64
	JobCreateIndex  uint64
	Index           uint64
}

// JobDispatchPayload is what a job was dispatched with.
type JobDispatchPayload struct{ Payload []byte }

// PeriodicForceResponse is the reply to the launch of a periodic job out of its time.
type PeriodicForceResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	Index           uint64
}
