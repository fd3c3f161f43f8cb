package api

import (
	"context"
	"net/http"
)

// Orphan tells what an orphan of a node is.
func (n Nodes) Orphan(ctx context.Context, node, alloc string, o *QueryOptions) (*Orphan, error) {
	var out Orphan
	_, err := n.c.do(ctx, newCall(http.MethodGet, "node", node, "orphan", alloc).read(o), &out)
	return &out, err
}

// EndOrphan ends an orphan of a node. It returns when that has begun; the node's Orphans tell when it is over.
func (n Nodes) EndOrphan(ctx context.Context, node, alloc string, o *WriteOptions) error {
	_, err := n.c.do(ctx, newCall(http.MethodPut, "node", node, "orphan", alloc, "end").write(o), nil)
	return err
}

// AdoptOrphans gives orphans of one job to the servers' state, all or none: what runs goes on as allocations like any
// others.
func (n Nodes) AdoptOrphans(
	ctx context.Context, req *OrphanAdoptRequest, o *WriteOptions,
) (*OrphanAdoptResponse, *QueryMeta, error) {
	var out OrphanAdoptResponse
	meta, err := n.c.do(ctx, newCall(http.MethodPut, "orphans", "adopt").write(o).json(req), &out)
	return &out, meta, err
}

// Replace takes your word that the machine of a node that is down will not come back: its allocations are lost, its
// claims end, and volumes that live on it alone may be forgotten by force.
func (n Nodes) Replace(
	ctx context.Context, old string, req *NodeReplaceRequest, o *WriteOptions,
) (*NodeReplaceResponse, *QueryMeta, error) {
	var out NodeReplaceResponse
	meta, err := n.c.do(ctx, newCall(http.MethodPut, "node", old, "replace").write(o).json(req), &out)
	return &out, meta, err
}
