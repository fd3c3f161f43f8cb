package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
)

// Allocations are the endpoints of allocations.
type Allocations struct{ c *Client }

// Allocations returns the endpoints of allocations.
func (c *Client) Allocations() Allocations { return Allocations{c} }

func (c *Client) allocStubs(ctx context.Context, r *call) ([]*AllocationListStub, *QueryMeta, error) {
	var out []*AllocationListStub
	meta, err := c.do(ctx, r, &out)
	slices.SortStableFunc(out, func(a, b *AllocationListStub) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out, meta, err
}

func (c *Client) evals(ctx context.Context, r *call) ([]*Evaluation, *QueryMeta, error) {
	var out []*Evaluation
	meta, err := c.do(ctx, r, &out)
	slices.SortStableFunc(out, func(a, b *Evaluation) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out, meta, err
}

// List returns the allocations, newest first.
func (a Allocations) List(ctx context.Context, o *QueryOptions) ([]*AllocationListStub, *QueryMeta, error) {
	return a.c.allocStubs(ctx, newCall(http.MethodGet, "allocations").read(o))
}

// Get returns an allocation in full.
func (a Allocations) Get(ctx context.Context, id string, o *QueryOptions) (*Allocation, *QueryMeta, error) {
	return get[Allocation](ctx, a.c, o, "allocation", id)
}

// Stop stops an allocation; its job is evaluated anew.
func (a Allocations) Stop(
	ctx context.Context, id string, noShutdownDelay bool, o *WriteOptions,
) (*AllocStopResponse, *QueryMeta, error) {
	r := newCall(http.MethodPut, "allocation", id, "stop").write(o)
	if noShutdownDelay {
		r.setBool("no_shutdown_delay", true)
	}
	var out AllocStopResponse
	meta, err := a.c.do(ctx, r, &out)
	return &out, meta, err
}

// Restart restarts tasks of an allocation in place.
func (a Allocations) Restart(ctx context.Context, id string, req *AllocRestartRequest, o *WriteOptions) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "client", "allocation", id, "restart").write(o).json(req), nil)
	return err
}

// Signal sends a signal to tasks of an allocation.
func (a Allocations) Signal(ctx context.Context, id string, req *AllocSignalRequest, o *WriteOptions) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "client", "allocation", id, "signal").write(o).json(req), nil)
	return err
}

// Stats returns what an allocation uses now.
func (a Allocations) Stats(ctx context.Context, id string, o *QueryOptions) (*AllocResourceUsage, error) {
	var out AllocResourceUsage
	_, err := a.c.do(ctx, newCall(http.MethodGet, "client", "allocation", id, "stats").read(o), &out)
	return &out, err
}

// Checks returns the results of an allocation's service checks, by check id.
func (a Allocations) Checks(ctx context.Context, id string, o *QueryOptions) (map[string]*AllocCheckStatus, error) {
	var out map[string]*AllocCheckStatus
	_, err := a.c.do(ctx, newCall(http.MethodGet, "client", "allocation", id, "checks").read(o), &out)
	return out, err
}

// ConsulServices returns how the services of an allocation stand in Consul, ordered by their ids.
func (a Allocations) ConsulServices(
	ctx context.Context, id string, o *QueryOptions,
) ([]*ConsulServiceStatus, error) {
	var out []*ConsulServiceStatus
	_, err := a.c.do(ctx, newCall(http.MethodGet, "allocation", id, "consul").read(o), &out)
	return out, err
}

// ListFiles returns the files in a directory of an allocation.
func (a Allocations) ListFiles(ctx context.Context, id, path string, o *QueryOptions) ([]*AllocFileInfo, error) {
	var out []*AllocFileInfo
	_, err := a.c.do(ctx, newCall(http.MethodGet, "client", "fs", "ls", id).set("path", path).read(o), &out)
	return out, err
}

// StatFile returns a file of an allocation.
func (a Allocations) StatFile(ctx context.Context, id, path string, o *QueryOptions) (*AllocFileInfo, error) {
	var out AllocFileInfo
	_, err := a.c.do(ctx, newCall(http.MethodGet, "client", "fs", "stat", id).set("path", path).read(o), &out)
	return &out, err
}

// Evaluations are the endpoints of evaluations.
type Evaluations struct{ c *Client }

// Evaluations returns the endpoints of evaluations.
func (c *Client) Evaluations() Evaluations { return Evaluations{c} }

// List returns the evaluations, newest first.
func (e Evaluations) List(ctx context.Context, o *QueryOptions) ([]*Evaluation, *QueryMeta, error) {
	return e.c.evals(ctx, newCall(http.MethodGet, "evaluations").read(o))
}

// Get returns an evaluation with those related to it.
func (e Evaluations) Get(ctx context.Context, id string, o *QueryOptions) (*Evaluation, *QueryMeta, error) {
	var out Evaluation
	meta, err := e.c.do(ctx, newCall(http.MethodGet, "evaluation", id).setBool("related", true).read(o), &out)
	return &out, meta, err
}

// Allocations returns the allocations that an evaluation made or changed.
func (e Evaluations) Allocations(
	ctx context.Context, id string, o *QueryOptions,
) ([]*AllocationListStub, *QueryMeta, error) {
	return e.c.allocStubs(ctx, newCall(http.MethodGet, "evaluation", id, "allocations").read(o))
}

// Nodes are the endpoints of nodes.
type Nodes struct{ c *Client }

// Nodes returns the endpoints of nodes.
func (c *Client) Nodes() Nodes { return Nodes{c} }

// List returns the nodes, newest first.
func (n Nodes) List(ctx context.Context, o *QueryOptions) ([]*NodeListStub, *QueryMeta, error) {
	var out []*NodeListStub
	meta, err := n.c.do(ctx, newCall(http.MethodGet, "nodes").read(o), &out)
	slices.SortStableFunc(out, func(a, b *NodeListStub) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out, meta, err
}

// Get returns a node in full.
func (n Nodes) Get(ctx context.Context, id string, o *QueryOptions) (*Node, *QueryMeta, error) {
	return get[Node](ctx, n.c, o, "node", id)
}

// Allocations returns the allocations on a node in full, newest first.
func (n Nodes) Allocations(ctx context.Context, id string, o *QueryOptions) ([]*Allocation, *QueryMeta, error) {
	var out []*Allocation
	meta, err := n.c.do(ctx, newCall(http.MethodGet, "node", id, "allocations").read(o), &out)
	slices.SortStableFunc(out, func(a, b *Allocation) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	return out, meta, err
}

// SetEligibility says whether a node takes new allocations.
func (n Nodes) SetEligibility(
	ctx context.Context, id string, eligible bool, o *WriteOptions,
) (*NodeUpdateResponse, *QueryMeta, error) {
	req := &NodeUpdateEligibilityRequest{NodeID: id, Eligibility: NodeSchedulingIneligible}
	if eligible {
		req.Eligibility = NodeSchedulingEligible
	}
	return put[NodeUpdateResponse](ctx, n.c, o, req, "node", id, "eligibility")
}

// RebootConfirm vouches that nothing runs under a node's identity but the agent that the servers obey.
func (n Nodes) RebootConfirm(
	ctx context.Context, id string, req *NodeRebootConfirmRequest, o *WriteOptions,
) (*NodeRebootConfirmResponse, *QueryMeta, error) {
	return put[NodeRebootConfirmResponse](ctx, n.c, o, req, "node", id, "reboot-confirm")
}

// Readmit makes the token by which one agent that has lost its store takes up a node's identity.
func (n Nodes) Readmit(
	ctx context.Context, id string, req *NodeReadmitRequest, o *WriteOptions,
) (*NodeReadmitResponse, *QueryMeta, error) {
	return put[NodeReadmitResponse](ctx, n.c, o, req, "node", id, "readmit")
}

// ForgetMount says of an unknown mount of a node that it is none of a volume that the cluster knows: it holds up no
// release any more. Nothing is unmounted.
func (n Nodes) ForgetMount(ctx context.Context, node string, req *NodeForgetMountRequest, o *WriteOptions) error {
	_, err := n.c.do(ctx, newCall(http.MethodPut, "node", node, "unknown-mount", "forget").write(o).json(req), nil)
	return err
}

// Stats returns the load of a node; an empty id means that of the agent.
func (n Nodes) Stats(ctx context.Context, id string, o *QueryOptions) (*HostStats, error) {
	var out HostStats
	_, err := n.c.do(ctx, newCall(http.MethodGet, "client", "stats").set("node_id", id).read(o), &out)
	return &out, err
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
