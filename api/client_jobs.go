package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Jobs are the endpoints of jobs.
type Jobs struct{ c *Client }

// Jobs returns the endpoints of jobs.
func (c *Client) Jobs() Jobs { return Jobs{c} }

// List returns the jobs, by id.
func (j Jobs) List(ctx context.Context, o *QueryOptions) ([]*JobListStub, *QueryMeta, error) {
	var out []*JobListStub
	meta, err := j.c.do(ctx, newCall(http.MethodGet, "jobs").read(o), &out)
	slices.SortStableFunc(out, func(a, b *JobListStub) int { return strings.Compare(a.ID, b.ID) })
	return out, meta, err
}

// Get returns a job in full.
func (j Jobs) Get(ctx context.Context, id string, o *QueryOptions) (*Job, *QueryMeta, error) {
	return get[Job](ctx, j.c, o, "job", id)
}

// Register creates or changes a job.
func (j Jobs) Register(
	ctx context.Context, req *JobRegisterRequest, o *WriteOptions,
) (*JobRegisterResponse, *QueryMeta, error) {
	return put[JobRegisterResponse](ctx, j.c, o, req, "jobs")
}

// Plan tells what Register would do.
func (j Jobs) Plan(ctx context.Context, req *JobPlanRequest, o *WriteOptions) (*JobPlanResponse, *QueryMeta, error) {
	id := ""
	if req.Job != nil && req.Job.ID != nil {
		id = *req.Job.ID
	}
	return put[JobPlanResponse](ctx, j.c, o, req, "job", id, "plan")
}

// Validate has the servers check a job without keeping it.
func (j Jobs) Validate(
	ctx context.Context, req *JobValidateRequest, o *WriteOptions,
) (*JobValidateResponse, *QueryMeta, error) {
	return put[JobValidateResponse](ctx, j.c, o, req, "validate", "job")
}

// Parse has the servers turn a job file into a job.
func (j Jobs) Parse(ctx context.Context, req *JobsParseRequest, o *WriteOptions) (*Job, error) {
	var out Job
	_, err := j.c.do(ctx, newCall(http.MethodPut, "jobs", "parse").write(o).json(req), &out)
	return &out, err
}

// JobDeregisterOptions say how a job is stopped.
type JobDeregisterOptions struct {
	Purge           bool // forget it at once
	NoShutdownDelay bool
	EvalPriority    int
}

// Deregister stops a job. A job that does not exist gives an empty EvalID.
func (j Jobs) Deregister(
	ctx context.Context, id string, how JobDeregisterOptions, o *WriteOptions,
) (*JobDeregisterResponse, *QueryMeta, error) {
	r := newCall(http.MethodDelete, "job", id).write(o).setBool("purge", how.Purge).setBool("no_shutdown_delay",
		how.NoShutdownDelay).
		setBool("global", false).set("eval_priority", strconv.Itoa(how.EvalPriority))
	var out JobDeregisterResponse
	meta, err := j.c.do(ctx, r, &out)
	return &out, meta, err
}

// Start has a job that was stopped run again as it was; one that is not stopped is only looked at again. An addition of
// Berth.
func (j Jobs) Start(ctx context.Context, id string, o *WriteOptions) (*JobRegisterResponse, *QueryMeta, error) {
	var out JobRegisterResponse
	meta, err := j.c.do(ctx, newCall(http.MethodPut, "job", id, "start").write(o), &out)
	return &out, meta, err
}

// Evaluate asks the scheduler to look at a job again.
func (j Jobs) Evaluate(
	ctx context.Context, req *JobEvaluateRequest, o *WriteOptions,
) (*JobRegisterResponse, *QueryMeta, error) {
	return put[JobRegisterResponse](ctx, j.c, o, req, "job", req.JobID, "evaluate")
}

// Allocations returns the allocations of a job, newest first; all includes those of earlier jobs of the same id.
func (j Jobs) Allocations(
	ctx context.Context, id string, all bool, o *QueryOptions,
) ([]*AllocationListStub, *QueryMeta, error) {
	return j.c.allocStubs(ctx, newCall(http.MethodGet, "job", id, "allocations").setBool("all", all).read(o))
}

// Rollout returns how far a job is on its way to what is wanted of it.
func (j Jobs) Rollout(ctx context.Context, id string, o *QueryOptions) (*JobRollout, *QueryMeta, error) {
	return get[JobRollout](ctx, j.c, o, "job", id, "rollout")
}

// Evaluations returns the evaluations of a job, newest first.
func (j Jobs) Evaluations(ctx context.Context, id string, o *QueryOptions) ([]*Evaluation, *QueryMeta, error) {
	return j.c.evals(ctx, newCall(http.MethodGet, "job", id, "evaluations").read(o))
}

// ConsulEntries returns how what a job's gateways do stands in Consul, in the order of the gateways.
func (j Jobs) ConsulEntries(ctx context.Context, id string, o *QueryOptions) ([]*ConsulEntryStatus, error) {
	var out []*ConsulEntryStatus
	_, err := j.c.do(ctx, newCall(http.MethodGet, "job", id, "consul").read(o), &out)
	return out, err
}

// Deployment returns the latest deployment of a job, or nil.
func (j Jobs) Deployment(ctx context.Context, id string, o *QueryOptions) (*Deployment, *QueryMeta, error) {
	var out *Deployment
	meta, err := j.c.do(ctx, newCall(http.MethodGet, "job", id, "deployment").read(o), &out)
	return out, meta, err
}

// Deployments returns the deployments of a job, newest first; all includes those of earlier jobs of the same id.
func (j Jobs) Deployments(
	ctx context.Context, id string, all bool, o *QueryOptions,
) ([]*Deployment, *QueryMeta, error) {
	return j.c.deployments(ctx, newCall(http.MethodGet, "job", id, "deployments").setBool("all", all).read(o))
}

// Summary counts the allocations of a job.
func (j Jobs) Summary(ctx context.Context, id string, o *QueryOptions) (*JobSummary, *QueryMeta, error) {
	return get[JobSummary](ctx, j.c, o, "job", id, "summary")
}

// Versions returns the kept versions of a job, newest first, and with diffs their differences.
func (j Jobs) Versions(
	ctx context.Context, id string, diffs bool, o *QueryOptions,
) (*JobVersionsResponse, *QueryMeta, error) {
	var out JobVersionsResponse
	meta, err := j.c.do(ctx, newCall(http.MethodGet, "job", id, "versions").setBool("diffs", diffs).read(o), &out)
	return &out, meta, err
}

// Submission returns the source of a version of a job.
func (j Jobs) Submission(
	ctx context.Context, id string, version uint64, o *QueryOptions,
) (*JobSubmission, *QueryMeta, error) {
	var out JobSubmission
	meta, err := j.c.do(ctx,
		newCall(http.MethodGet, "job", id, "submission").set("version", strconv.FormatUint(version, 10)).read(o), &out)
	return &out, meta, err
}
