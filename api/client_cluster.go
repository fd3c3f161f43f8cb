package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Cluster are the endpoints of agents, servers, namespaces and access control.
type Cluster struct{ c *Client }

// Cluster returns the endpoints of agents, servers, namespaces and access control.
func (c *Client) Cluster() Cluster { return Cluster{c} }

// Self returns what the agent says of itself.
func (a Cluster) Self(ctx context.Context) (*AgentSelf, error) {
	var out AgentSelf
	_, err := a.c.do(ctx, newCall(http.MethodGet, "agent", "self"), &out)
	return &out, err
}

// Health returns the health of both halves of the agent; one that is not well is a StatusError.
func (a Cluster) Health(ctx context.Context) (*AgentHealthResponse, error) {
	var out AgentHealthResponse
	_, err := a.c.do(ctx, newCall(http.MethodGet, "agent", "health"), &out)
	return &out, err
}

// Members returns the servers that the agent knows.
func (a Cluster) Members(ctx context.Context) (*ServerMembers, error) {
	var out ServerMembers
	_, err := a.c.do(ctx, newCall(http.MethodGet, "agent", "members"), &out)
	return &out, err
}

// Leader returns the address of the leading server of a region; an empty region is the agent's own.
func (a Cluster) Leader(ctx context.Context, region string) (string, error) {
	var out string
	_, err := a.c.do(ctx, newCall(http.MethodGet, "status", "leader").set("region", region), &out)
	return out, err
}

// Peers returns the addresses of the servers that vote.
func (a Cluster) Peers(ctx context.Context) ([]string, error) {
	var out []string
	_, err := a.c.do(ctx, newCall(http.MethodGet, "status", "peers"), &out)
	return out, err
}

// ForceLeave takes a server out of the cluster, for good. A name that no server has is no error.
func (a Cluster) ForceLeave(ctx context.Context, name string) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "agent", "force-leave").set("node", name), nil)
	return err
}

// Regions returns the known regions.
func (a Cluster) Regions(ctx context.Context) ([]string, error) {
	var out []string
	_, err := a.c.do(ctx, newCall(http.MethodGet, "regions"), &out)
	return out, err
}

// Search returns the ids that begin with a prefix, by kind of object; the context "all" searches every kind.
func (a Cluster) Search(ctx context.Context, prefix, searchContext string, o *QueryOptions) (*SearchResponse, error) {
	var out SearchResponse
	_, err := a.c.do(ctx,
		newCall(http.MethodPut, "search").read(o).json(&SearchRequest{Prefix: prefix, Context: searchContext}), &out)
	return &out, err
}

// CollectGarbage forgets what has ended.
func (a Cluster) CollectGarbage(ctx context.Context) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "system", "gc").json(struct{}{}), nil)
	return err
}

// Namespaces returns the namespaces.
func (a Cluster) Namespaces(ctx context.Context, o *QueryOptions) ([]*Namespace, *QueryMeta, error) {
	var out []*Namespace
	meta, err := a.c.do(ctx, newCall(http.MethodGet, "namespaces").read(o), &out)
	return out, meta, err
}

// Namespace returns one namespace.
func (a Cluster) Namespace(ctx context.Context, name string, o *QueryOptions) (*Namespace, *QueryMeta, error) {
	return get[Namespace](ctx, a.c, o, "namespace", name)
}

// PutNamespace writes a namespace: a new one, or in place of the one of its name.
func (a Cluster) PutNamespace(ctx context.Context, n *Namespace) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "namespace").json(n), nil)
	return err
}

// DeleteNamespace removes a namespace in which nothing is left.
func (a Cluster) DeleteNamespace(ctx context.Context, name string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, "namespace", name), nil)
	return err
}

// NodePools returns the node pools.
func (a Cluster) NodePools(ctx context.Context, o *QueryOptions) ([]*NodePool, *QueryMeta, error) {
	var out []*NodePool
	meta, err := a.c.do(ctx, newCall(http.MethodGet, "node", "pools").read(o), &out)
	return out, meta, err
}

// NodePool returns one node pool.
func (a Cluster) NodePool(ctx context.Context, name string, o *QueryOptions) (*NodePool, *QueryMeta, error) {
	return get[NodePool](ctx, a.c, o, "node", "pool", name)
}

// PutNodePool writes a node pool: a new one, or in place of the one of its name.
func (a Cluster) PutNodePool(ctx context.Context, p *NodePool) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "node", "pools").json(p), nil)
	return err
}

// DeleteNodePool removes a node pool that nothing names.
func (a Cluster) DeleteNodePool(ctx context.Context, name string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, "node", "pool", name), nil)
	return err
}

// NodePoolNodes returns the nodes of a pool.
func (a Cluster) NodePoolNodes(
	ctx context.Context, name string, o *QueryOptions,
) (out []*NodeListStub, meta *QueryMeta, err error) {
	meta, err = a.c.do(ctx, newCall(http.MethodGet, "node", "pool", name, "nodes").read(o), &out)
	return out, meta, err
}

// NodePoolJobs returns the jobs that ask for a pool.
func (a Cluster) NodePoolJobs(
	ctx context.Context, name string, o *QueryOptions,
) (out []*JobListStub, meta *QueryMeta, err error) {
	meta, err = a.c.do(ctx, newCall(http.MethodGet, "node", "pool", name, "jobs").read(o), &out)
	return out, meta, err
}

// Raw sends any request to a path such as /v1/jobs?prefix=a, and returns the body of the reply, which the caller
// closes.
func (c *Client) Raw(
	ctx context.Context, method, target string, header http.Header, body io.Reader,
) (io.ReadCloser, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	r := &call{
		method: method,
		path:   u.EscapedPath(),
		query:  u.Query(),
		header: header.Clone(),
		body:   body,
	}
	if r.header == nil {
		r.header = http.Header{}
	}
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
