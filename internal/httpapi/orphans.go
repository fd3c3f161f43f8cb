package httpapi

import (
	"fmt"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/wire"
)

// orphanRef names an orphan in full: nothing but its node knows it.
func orphanRef(r *calls.Request) (*wire.AgentRef, error) {
	id, orphan := r.PathValue("id"), r.PathValue("alloc")
	if err := calls.WholeID("node", id); err != nil {
		return nil, err
	}
	return &wire.AgentRef{Node: ids.Node(id), Alloc: ids.Alloc(orphan)}, calls.WholeID("allocation", orphan)
}

// orphanEnd ends what a node keeps though nobody decides about it.
var orphanEnd = calls.Call(wire.AllocEndOrphan, orphanRef, calls.Done)

// orphanGet tells what such an alloc is. What the provider gave for the mounts may be secret, and stays between node
// and servers.
var orphanGet = calls.Call(wire.AllocOrphan, orphanRef, func(r *calls.Request, out *wire.Orphan) (any, error) {
	a, j := out.Bundle.Alloc, out.Bundle.Job
	if a == nil || j == nil {
		return nil, calls.Missing("orphan not found")
	}
	digest, err := wire.DigestOf(j)
	if err != nil {
		return nil, err
	}
	return convert.Orphan(r.PathValue("id"), digest, out), nil
})

// orphanAdopt gives orphans of one job to the servers' state.
var orphanAdopt = calls.Write(wire.OrphanAdopt, func(r *calls.Request) (*wire.OrphanAdoptRequest, error) {
	var body api.OrphanAdoptRequest
	if err := r.Read(&body); err != nil {
		return nil, err
	}
	out := &wire.OrphanAdoptRequest{As: ids.Job(body.As), Seen: body.Digest, By: access.Peer(r.Request)}
	if len(body.Orphans) == 0 || body.Digest == "" {
		return nil, calls.BadRequest("Orphans and the Digest of their job are required")
	}
	for i, o := range body.Orphans {
		if o == nil {
			return nil, calls.BadRequest(fmt.Sprintf("Orphans[%d] is null", i))
		}
		if err := calls.WholeID("node", o.NodeID); err != nil {
			return nil, err
		}
		if err := calls.WholeID("allocation", o.AllocID); err != nil {
			return nil, err
		}
		out.Orphans = append(out.Orphans, wire.AgentRef{Node: ids.Node(o.NodeID), Alloc: ids.Alloc(o.AllocID)})
	}
	return out, nil
}, func(out *wire.OrphanAdoptReply) (uint64, any) {
	return out.Index, convert.Adopted(out)
})
