package api

import (
	"context"
	"net/http"
	"time"
)

// CA is what the certificates between agents are believed by (Berth's own, like all that follows).
type CA struct {
	// Roots are those that are trusted, the present one first; none: the cluster has no authority yet.
	Roots []*CARoot
	// Unaware are the nodes that have not shown yet that they know the present root, while there is one before it.
	Unaware []*CANode
}

// CARoot is a root of the cluster.
type CARoot struct {
	KeyID   string // a hash of its public key, as join tokens carry it
	Created time.Time
	By      string // who had it replace another one
	// Until is when it is forgotten; nil: it is the present one.
	Until *time.Time `json:",omitempty"`
}

// CANode is a node.
type CANode struct {
	NodeID string
	Name   string
}

// CAFinishRequest has the roots before the present one forgotten before their time.
type CAFinishRequest struct {
	// Force: also where nodes have not shown that they know the present one; each of these needs a join token then.
	Force  bool
	Reason string // it is recorded; Force needs one
}

// CA tells which roots are trusted.
func (a Operator) CA(ctx context.Context, o *QueryOptions) (*CA, *QueryMeta, error) {
	var out CA
	meta, err := a.c.do(ctx, newCall(http.MethodGet, "operator", "ca").read(o), &out)
	return &out, meta, err
}

// RotateCA replaces the root by a new one. That before is trusted for 90 days, or until FinishCA.
func (a Operator) RotateCA(ctx context.Context, o *WriteOptions) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "operator", "ca", "rotate").write(o), nil)
	return err
}

// FinishCA has the roots before the present one forgotten.
func (a Operator) FinishCA(ctx context.Context, req *CAFinishRequest, o *WriteOptions) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "operator", "ca", "finish").write(o).json(req), nil)
	return err
}
