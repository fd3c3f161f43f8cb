package api

import (
	"context"
	"net/http"
)

// Orphan is an allocation that its node keeps although nobody decides about it, in full.
type Orphan struct {
	AllocID    string
	NodeID     string
	Name       string
	TaskGroup  string
	Digest     string // of Job; an adoption names what was shown
	RecordLost bool   // the node has lost its record, and knows it by what holds its processes
	Job        *Job
	Volumes    []*OrphanVolume
}

// OrphanVolume is what the node holds of a volume for an orphan.
type OrphanVolume struct {
	ID             string
	Namespace      string
	Alias          string // of the group's volume block
	PluginID       string
	ExternalID     string
	AccessMode     string
	AttachmentMode string
	FSType         string
	ReadOnly       bool
	Context        map[string]string // as the provider gave it
}

// OrphanRef names an orphan and its node.
type OrphanRef struct {
	NodeID  string
	AllocID string
}

// OrphanAdoptRequest gives orphans of one job to the servers. As is the job's new id; empty: it keeps its own.
type OrphanAdoptRequest struct {
	Orphans []*OrphanRef
	As      string
	Digest  string
}

// OrphanAdoptResponse tells what an adoption made.
type OrphanAdoptResponse struct {
	JobID    string
	EvalID   string // empty: there is nothing to follow
	Warnings string
}

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

// NodeReplaceRequest attests that a machine is dead, and names the node that does its work.
type NodeReplaceRequest struct {
	NewNodeID string
	Reason    string
}

// NodeReplaceResponse tells what was given up.
type NodeReplaceResponse struct {
	Allocs      int      // that are lost by this
	Claims      int      // that ended
	LostVolumes []string // that lived on the node alone, as namespace/id
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
