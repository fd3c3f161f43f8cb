package api

import (
	"context"
	"net/http"
)

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

// Dispatch launches a parameterized job. Of several dispatches with one idempotency token, unless it is empty, the first
// launches one, and the others name that.
func (j Jobs) Dispatch(
	ctx context.Context, req *JobDispatchRequest, o *WriteOptions,
) (*JobDispatchResponse, *QueryMeta, error) {
	var out JobDispatchResponse
	r := newCall(http.MethodPut, "job", req.JobID, "dispatch").write(o).json(req)
	meta, err := j.c.do(ctx, r, &out)
	return &out, meta, err
}

// PeriodicForce launches a periodic job out of its time.
func (j Jobs) PeriodicForce(ctx context.Context, id string, o *WriteOptions) (*PeriodicForceResponse, *QueryMeta, error) {
	var out PeriodicForceResponse
	meta, err := j.c.do(ctx, newCall(http.MethodPut, "job", id, "periodic", "force").write(o), &out)
	return &out, meta, err
}

// DispatchPayload returns what a job was dispatched with.
func (j Jobs) DispatchPayload(ctx context.Context, id string, o *QueryOptions) (*JobDispatchPayload, *QueryMeta, error) {
	var out JobDispatchPayload
	meta, err := j.c.do(ctx, newCall(http.MethodGet, "job", id, "dispatch", "payload").read(o), &out)
	return &out, meta, err
}
