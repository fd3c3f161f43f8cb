package api

import (
	"context"
	"net/http"
	"time"
)

// NodeDenialRequest is a person's word that a node is denied, or is so no more (Berth's own, like all that follows).
type NodeDenialRequest struct {
	Reason string // it is recorded
}

// NodeDenial is a node that is let in no more: it gets no certificate, and no connection.
type NodeDenial struct {
	NodeID string
	Name   string // that it had when it was denied
	Key    string // a hash of its public key, which is refused under every id
	Since  time.Time
	By     string
	Reason string
}

// Deny lets a node in no more.
func (n Nodes) Deny(ctx context.Context, id string, req *NodeDenialRequest, o *WriteOptions) error {
	_, err := n.c.do(ctx, newCall(http.MethodPut, "node", id, "deny").write(o).json(req), nil)
	return err
}

// Allow lets a node in again that was denied.
func (n Nodes) Allow(ctx context.Context, id string, req *NodeDenialRequest, o *WriteOptions) error {
	_, err := n.c.do(ctx, newCall(http.MethodPut, "node", id, "allow").write(o).json(req), nil)
	return err
}

// Denials lists the nodes that are denied.
func (n Nodes) Denials(ctx context.Context, o *QueryOptions) ([]*NodeDenial, *QueryMeta, error) {
	var out []*NodeDenial
	meta, err := n.c.do(ctx, newCall(http.MethodGet, "node", "denials").read(o), &out)
	return out, meta, err
}
