package httpapi

import (
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/wire"
)

var nodeList = read(wire.NodeList, listBy(), func(r *request, out *wire.List[*node.Node]) (any, error) {
	return table[*node.Node]{
		key:  wire.KeyOfNode,
		full: func(n *node.Node) any { return convert.NodeStub(n, true, true) },
		row:  func(n *node.Node) any { return convert.NodeStub(n, r.flag("os"), r.flag("resources")) },
	}.show(r, nodesOf(r, out.Items), out.NextToken)
})

var nodeGet = read(wire.NodeGet, byID[ids.Node]("node"), func(_ *request, out *wire.NodeGetReply) (any, error) {
	return shown(out.Item, "node", func(n *node.Node) any { return convert.NodeWith(n, out) })
})

// nodeAllocs answers for what is no node, too: it has none.
var nodeAllocs = read(wire.NodeAllocList, byName[ids.Node],
	func(_ *request, out *wire.AllocListReply) (any, error) {
		return rows(out.Items, func(b alloc.Bundle) *api.Allocation { return convert.Alloc(b, nil) }), nil
	})

// aboutNode reads the body of a request about one node, which it names in full.
func aboutNode(r *request, body any) error {
	if err := wholeID("node", r.PathValue("id")); err != nil {
		return err
	}
	return r.read(body)
}

// aboutNodeAlone is aboutNode of a request that says no more than which node.
func aboutNodeAlone(r *request, _ any) error { return wholeID("node", r.PathValue("id")) }

var nodeEligibility = write(wire.NodeEligibility, func(r *request) (*wire.NodeEligibilityRequest, error) {
	var body struct{ Eligibility string }
	if err := aboutNode(r, &body); err != nil {
		return nil, err
	}
	if body.Eligibility != node.Eligible && body.Eligibility != node.Ineligible {
		return nil, badRequest(`Eligibility must be eligible or ineligible, is "` + body.Eligibility + `"`)
	}
	return &wire.NodeEligibilityRequest{Node: ids.Node(r.PathValue("id")), Eligibility: body.Eligibility}, nil
}, func(out *wire.NodeEligibilityReply) (uint64, any) {
	return out.Index, convert.Eligibility(out)
})

var nodeRebootConfirm = write(wire.NodeRebootConfirm, body(aboutNode, convert.ToRebootConfirm),
	func(out *wire.RebootConfirmReply) (uint64, any) {
		return out.Index, &api.NodeRebootConfirmResponse{Resolved: out.Resolved, NextAccepted: out.Open}
	})

var nodeReadmit = write(wire.NodeReadmit, body(aboutNode, convert.ToReadmit),
	func(out *wire.ReadmitReply) (uint64, any) {
		return out.Index, &api.NodeReadmitResponse{Token: out.Token.Values[wire.ReadmitToken], Expires: out.Expires}
	})

var (
	nodeDeny    = write(wire.NodeDeny, body(aboutNode, convert.ToDenial), empty)
	nodeAllow   = write(wire.NodeAllow, body(aboutNode, convert.ToDenial), empty)
	nodeDenials = read(wire.NodeDenials, (*request).whole, as(convert.Denials))
)

var search = write(wire.SystemSearch, func(r *request) (*wire.SearchRequest, error) {
	var body api.SearchRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	if strings.ContainsRune(body.Prefix+body.Namespace, 0) {
		return nil, badRequest("the prefix or the namespace has a zero byte")
	}
	ns := r.ns
	if body.Namespace != "" && r.arg("namespace") == "" {
		ns = ids.Namespace(body.Namespace)
	}
	return &wire.SearchRequest{Namespace: ns, Prefix: body.Prefix, Context: body.Context}, nil
}, func(out *wire.SearchReply) (uint64, any) {
	return out.Index, &api.SearchResponse{Matches: out.Matches, Truncations: out.Truncations}
})

var systemGC = call(wire.SystemGC, fixed(&wire.Empty{}), func(*request, *wire.Written) (any, error) {
	return noReply{}, nil
})

func (s *Server) status(r *request) (*wire.SystemStatusReply, error) {
	return wire.SystemStatus.Call(r.Context(), s.cfg.Servers, &wire.Empty{})
}

func (s *Server) leader(r *request) (any, error) {
	out, err := s.status(r)
	if err != nil {
		return nil, err
	}
	if out.Leader == "" {
		text := "No cluster leader" // which clients of this API look for
		if out.Leaderless != "" {
			text += ": " + out.Leaderless
		}
		return nil, fault.New(fault.Unavailable, "", "", text)
	}
	return out.Leader, nil
}

func (s *Server) regions(*request) (any, error) { return []string{s.cfg.Region}, nil }
