package api

import (
	"context"
	"net/http"
)

// Purge has the servers forget a node that is down and holds nothing.
func (n Nodes) Purge(ctx context.Context, id string, o *WriteOptions) (*NodePurgeResponse, *QueryMeta, error) {
	var out NodePurgeResponse
	meta, err := n.c.do(ctx, newCall(http.MethodPut, "node", id, "purge").write(o), &out)
	return &out, meta, err
}

// Meta returns the metadata of a node, as the node has it; an empty id means that of the agent.
func (n Nodes) Meta(ctx context.Context, id string, o *QueryOptions) (*NodeMetaResponse, error) {
	var out NodeMetaResponse
	_, err := n.c.do(ctx, newCall(http.MethodGet, "client", "metadata").set("node_id", id).read(o), &out)
	return &out, err
}

// ApplyMeta changes the metadata of a node, and returns what it is then.
func (n Nodes) ApplyMeta(ctx context.Context, req *NodeMetaApplyRequest, o *WriteOptions) (*NodeMetaResponse, error) {
	var out NodeMetaResponse
	_, err := n.c.do(ctx, newCall(http.MethodPut, "client", "metadata").write(o).json(req), &out)
	return &out, err
}

// NodeServers returns the addresses of the servers that the agent's node asks.
func (a Cluster) NodeServers(ctx context.Context) ([]string, error) {
	var out []string
	_, err := a.c.do(ctx, newCall(http.MethodGet, "agent", "servers"), &out)
	return out, err
}

// UseServers has the node of an agent without a server ask these servers.
func (a Cluster) UseServers(ctx context.Context, addresses []string) error {
	r := newCall(http.MethodPut, "agent", "servers")
	r.query["address"] = addresses
	_, err := a.c.do(ctx, r, nil)
	return err
}
