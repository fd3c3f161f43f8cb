package api

import (
	"context"
	"net/http"
)

// Dispatch launches a parameterized job. Of several dispatches with one idempotency token, unless it is empty, the
// first launches one, and the others name that.
func (j Jobs) Dispatch(
	ctx context.Context, req *JobDispatchRequest, o *WriteOptions,
) (*JobDispatchResponse, *QueryMeta, error) {
	var out JobDispatchResponse
	r := newCall(http.MethodPut, "job", req.JobID, "dispatch").write(o).json(req)
	meta, err := j.c.do(ctx, r, &out)
	return &out, meta, err
}

// PeriodicForce launches a periodic job out of its time.
func (j Jobs) PeriodicForce(
	ctx context.Context, id string, o *WriteOptions,
) (*PeriodicForceResponse, *QueryMeta, error) {
	var out PeriodicForceResponse
	meta, err := j.c.do(ctx, newCall(http.MethodPut, "job", id, "periodic", "force").write(o), &out)
	return &out, meta, err
}
