package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
)

// Deployments are the endpoints of deployments.
type Deployments struct{ c *Client }

// Deployments returns the endpoints of deployments.
func (c *Client) Deployments() Deployments { return Deployments{c} }

// List returns the deployments, newest first.
func (d Deployments) List(ctx context.Context, o *QueryOptions) ([]*Deployment, *QueryMeta, error) {
	return d.c.deployments(ctx, newCall(http.MethodGet, "deployments").read(o))
}

func (c *Client) deployments(ctx context.Context, r *call) ([]*Deployment, *QueryMeta, error) {
	var out []*Deployment
	meta, err := c.do(ctx, r, &out)
	slices.SortStableFunc(out, func(a, b *Deployment) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out, meta, err
}

// Get returns a deployment.
func (d Deployments) Get(ctx context.Context, id string, o *QueryOptions) (*Deployment, *QueryMeta, error) {
	return get[Deployment](ctx, d.c, o, "deployment", id)
}

// Allocations returns the allocations that a deployment placed or changed, newest first.
func (d Deployments) Allocations(
	ctx context.Context, id string, o *QueryOptions,
) ([]*AllocationListStub, *QueryMeta, error) {
	return d.c.allocStubs(ctx, newCall(http.MethodGet, "deployment", "allocations", id).read(o))
}

// Promote has the canaries of groups take the place of what they are tried against; without groups those of all.
func (d Deployments) Promote(
	ctx context.Context, id string, groups []string, o *WriteOptions,
) (*DeploymentUpdateResponse, *QueryMeta, error) {
	return d.update(ctx, "promote", id, &DeploymentPromoteRequest{id, len(groups) == 0, groups, 0}, o)
}

// Fail ends a deployment.
func (d Deployments) Fail(ctx context.Context, id string, o *WriteOptions) (*DeploymentUpdateResponse, *QueryMeta,
	error) {
	return d.update(ctx, "fail", id, &DeploymentFailRequest{id}, o)
}

// Pause holds a deployment, or lets it go on.
func (d Deployments) Pause(
	ctx context.Context, id string, pause bool, o *WriteOptions,
) (*DeploymentUpdateResponse, *QueryMeta, error) {
	return d.update(ctx, "pause", id, &DeploymentPauseRequest{id, pause}, o)
}

// SetHealth says by hand which allocations of a deployment are healthy, and which are not.
func (d Deployments) SetHealth(
	ctx context.Context, id string, healthy, unhealthy []string, o *WriteOptions,
) (*DeploymentUpdateResponse, *QueryMeta, error) {
	return d.update(ctx, "allocation-health", id, &DeploymentAllocHealthRequest{id, healthy, unhealthy}, o)
}

func (d Deployments) update(
	ctx context.Context, what, id string, body any, o *WriteOptions,
) (*DeploymentUpdateResponse, *QueryMeta, error) {
	return put[DeploymentUpdateResponse](ctx, d.c, o, body, "deployment", what, id)
}

// Revert registers a version of a job again as its newest one; prior, if it is given, must be the present version.
func (j Jobs) Revert(
	ctx context.Context, id string, version uint64, prior *uint64, o *WriteOptions,
) (*JobRegisterResponse, *QueryMeta, error) {
	return put[JobRegisterResponse](ctx, j.c, o, &JobRevertRequest{id, version, prior}, "job", id, "revert")
}

// Stable says by hand whether a version of a job is one to go back to.
func (j Jobs) Stable(
	ctx context.Context, id string, version uint64, stable bool, o *WriteOptions,
) (*JobStabilityResponse, *QueryMeta, error) {
	return put[JobStabilityResponse](ctx, j.c, o, &JobStabilityRequest{id, version, stable}, "job", id, "stable")
}
