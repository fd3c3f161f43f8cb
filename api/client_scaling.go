package api

import (
	"context"
	"net/http"
)

// Scale gives a group of a job another count, or remembers what is said of it.
func (j Jobs) Scale(
	ctx context.Context, id string, req *ScalingRequest, o *WriteOptions,
) (*JobRegisterResponse, *QueryMeta, error) {
	return put[JobRegisterResponse](ctx, j.c, o, req, "job", id, "scale")
}

// ScaleStatus returns the counts of a job's groups, and how they were scaled.
func (j Jobs) ScaleStatus(
	ctx context.Context, id string, o *QueryOptions,
) (*JobScaleStatusResponse, *QueryMeta, error) {
	return get[JobScaleStatusResponse](ctx, j.c, o, "job", id, "scale")
}

// Policies returns the scaling policies; a job or a type that is not empty chooses among them.
func (j Jobs) Policies(
	ctx context.Context, id, kind string, o *QueryOptions,
) (out []*ScalingPolicyListStub, meta *QueryMeta, err error) {
	r := newCall(http.MethodGet, "scaling", "policies").read(o).set("job", id).set("type", kind)
	meta, err = j.c.do(ctx, r, &out)
	return out, meta, err
}

// Policy returns a scaling policy.
func (j Jobs) Policy(ctx context.Context, id string, o *QueryOptions) (*ScalingPolicy, *QueryMeta, error) {
	return get[ScalingPolicy](ctx, j.c, o, "scaling", "policy", id)
}
