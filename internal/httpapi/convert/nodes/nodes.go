// Package nodes owns the public forms of what is asked of nodes, and of the servers about them. Only package httpapi
// imports it.
package nodes

import (
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// ToPurge is the internal form of the order to forget a node.
func ToPurge(_ *struct{}, id, _ string) (*wire.NodePurgeRequest, error) {
	return &wire.NodePurgeRequest{Node: ids.Node(id)}, nil
}

// Purged answers that order.
func Purged(out *wire.NodePurgeReply) (index uint64, answer any) {
	r := &api.NodePurgeResponse{EvalIDs: make([]string, 0, len(out.Evals)), NodeModifyIndex: out.Index}
	for _, e := range out.Evals {
		r.EvalIDs = append(r.EvalIDs, string(e))
	}
	if len(out.Evals) > 0 {
		r.EvalCreateIndex = out.Index
	}
	return out.Index, r
}

// ToReplace is the internal form of the word of a person that a machine is dead.
func ToReplace(body *api.NodeReplaceRequest, id, by string) (*wire.NodeReplaceRequest, error) {
	subject := fmt.Sprintf("node %q", id)
	switch {
	case !ids.IsUUID(body.NewNodeID):
		return nil, fault.New(fault.Invalid, "replace", subject,
			fmt.Sprintf("NewNodeID %q is not the whole id of a node", body.NewNodeID))
	case strings.TrimSpace(body.Reason) == "":
		return nil, fault.New(fault.Invalid, "replace", subject, "Reason is required")
	}
	return &wire.NodeReplaceRequest{
		Old:    ids.Node(id),
		New:    ids.Node(body.NewNodeID),
		Reason: body.Reason,
		By:     by,
	}, nil
}

// Replaced answers that word.
func Replaced(out *wire.NodeReplaceReply) (index uint64, answer any) {
	r := &api.NodeReplaceResponse{
		Allocs:      out.Allocs,
		Claims:      out.Claims,
		LostVolumes: make([]string, 0, len(out.Lost)),
	}
	for _, v := range out.Lost {
		r.LostVolumes = append(r.LostVolumes, v.String())
	}
	return out.Index, r
}

// ToForgetMount is the internal form of the word of a person about a mount that has no name.
func ToForgetMount(body *api.NodeForgetMountRequest, id, by string) (*wire.ForgetMountRequest, error) {
	if body.Path == "" || strings.TrimSpace(body.Reason) == "" {
		return nil, fault.New(fault.Invalid, "forget", "a mount", "Path and Reason are required")
	}
	return &wire.ForgetMountRequest{Node: ids.Node(id), Path: body.Path, Reason: body.Reason, By: by}, nil
}

// ToMeta is the internal form of a change of a node's metadata. other is what else the request names as the node.
func ToMeta(body *api.NodeMetaApplyRequest, id ids.Node, other string) (*wire.NodeMetaRequest, error) {
	if other != "" && other != string(id) {
		return nil, fault.New(fault.Invalid, "change", "a node's metadata",
			fmt.Sprintf("the body names node %q, and the query %q", id, other))
	}
	return &wire.NodeMetaRequest{Node: id, Meta: node.MetaWordsOf(body.Meta)}, nil
}

// Meta shows the metadata of a node.
func Meta(out *wire.NodeMetaReply) *api.NodeMetaResponse {
	r := &api.NodeMetaResponse{Meta: out.Meta, Dynamic: out.Dynamic.Map(), Static: out.Static}
	if r.Meta == nil {
		r.Meta = map[string]string{}
	}
	if r.Static == nil {
		r.Static = map[string]string{}
	}
	return r
}
