package api

import (
	"context"
	"net/http"
)

// TagVersion names a version of a job, which is kept from then on.
func (j Jobs) TagVersion(
	ctx context.Context, id, name string, req *TagVersionRequest, o *WriteOptions,
) (*JobVersionTag, *QueryMeta, error) {
	return put[JobVersionTag](ctx, j.c, o, req, "job", id, "versions", name, "tag")
}

// UntagVersion takes the name of a version away.
func (j Jobs) UntagVersion(ctx context.Context, id, name string, o *WriteOptions) (*QueryMeta, error) {
	return j.c.do(ctx, newCall(http.MethodDelete, "job", id, "versions", name, "tag").write(o), nil)
}

// Compare returns the versions of a job, and how each differs from the one with a number, or with a name.
func (j Jobs) Compare(
	ctx context.Context, id, version, tag string, o *QueryOptions,
) (*JobVersionsResponse, *QueryMeta, error) {
	var out JobVersionsResponse
	r := newCall(http.MethodGet, "job", id, "versions").read(o).setBool("diffs", true)
	meta, err := j.c.do(ctx, r.set("diff_version", version).set("diff_tag", tag), &out)
	return &out, meta, err
}
