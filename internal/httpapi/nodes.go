package httpapi

import (
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/wire"
)

var nodeList = calls.Read(wire.NodeList, calls.ListBy(),
	func(r *calls.Request, out *wire.List[*node.Node]) (any, error) {
		return calls.Table[*node.Node]{
			Key:  wire.KeyOfNode,
			Full: func(n *node.Node) any { return convert.NodeStub(n, true, true) },
			Row:  func(n *node.Node) any { return convert.NodeStub(n, r.Flag("os"), r.Flag("resources")) },
		}.Show(r, nodesOf(r, out.Items), out.NextToken)
	})

var nodeGet = calls.Read(wire.NodeGet, calls.ByID[ids.Node]("node"), func(_ *calls.Request,
	out *wire.NodeGetReply) (any, error) {
	return calls.Shown(out.Item, "node", func(n *node.Node) any { return convert.NodeWith(n, out) })
})

// nodeAllocs answers for what is no node, too: it has none.
var nodeAllocs = calls.Read(wire.NodeAllocList, calls.ByName[ids.Node],
	func(_ *calls.Request, out *wire.AllocListReply) (any, error) {
		return calls.Rows(out.Items, func(b alloc.Bundle) *api.Allocation { return convert.Alloc(b, nil) }), nil
	})

// aboutNode reads the body of a request about one node, which it names in full.
func aboutNode(r *calls.Request, body any) error {
	if err := calls.WholeID("node", r.PathValue("id")); err != nil {
		return err
	}
	return r.Read(body)
}

// aboutNodeAlone is aboutNode of a request that says no more than which node.
func aboutNodeAlone(r *calls.Request, _ any) error { return calls.WholeID("node", r.PathValue("id")) }

var nodeEligibility = calls.Write(wire.NodeEligibility, func(r *calls.Request) (*wire.NodeEligibilityRequest, error) {
	var body struct{ Eligibility string }
	if err := aboutNode(r, &body); err != nil {
		return nil, err
	}
	if body.Eligibility != node.Eligible && body.Eligibility != node.Ineligible {
		return nil, calls.BadRequest(`Eligibility must be eligible or ineligible, is "` + body.Eligibility + `"`)
	}
	return &wire.NodeEligibilityRequest{Node: ids.Node(r.PathValue("id")), Eligibility: body.Eligibility}, nil
}, func(out *wire.NodeEligibilityReply) (uint64, any) {
	return out.Index, convert.Eligibility(out)
})

var nodeRebootConfirm = calls.Write(wire.NodeRebootConfirm, calls.Form(aboutNode, convert.ToRebootConfirm),
	func(out *wire.RebootConfirmReply) (uint64, any) {
		return out.Index, &api.NodeRebootConfirmResponse{Resolved: out.Resolved, NextAccepted: out.Open}
	})

var nodeReadmit = calls.Write(wire.NodeReadmit, calls.Form(aboutNode, convert.ToReadmit),
	func(out *wire.ReadmitReply) (uint64, any) {
		return out.Index, &api.NodeReadmitResponse{Token: out.Token.Values[wire.ReadmitToken], Expires: out.Expires}
	})

var (
	nodeDeny    = calls.Write(wire.NodeDeny, calls.Form(aboutNode, convert.ToDenial), calls.Empty)
	nodeAllow   = calls.Write(wire.NodeAllow, calls.Form(aboutNode, convert.ToDenial), calls.Empty)
	nodeDenials = calls.Read(wire.NodeDenials, (*calls.Request).Whole, calls.As(convert.Denials))
)

var search = calls.Write(wire.SystemSearch, func(r *calls.Request) (*wire.SearchRequest, error) {
	var body api.SearchRequest
	if err := r.Read(&body); err != nil {
		return nil, err
	}
	if strings.ContainsRune(body.Prefix+body.Namespace, 0) {
		return nil, calls.BadRequest("the prefix or the namespace has a zero byte")
	}
	ns := r.Namespace
	if body.Namespace != "" && r.Arg("namespace") == "" {
		ns = ids.Namespace(body.Namespace)
	}
	return &wire.SearchRequest{Namespace: ns, Prefix: body.Prefix, Context: body.Context}, nil
}, func(out *wire.SearchReply) (uint64, any) {
	return out.Index, &api.SearchResponse{Matches: out.Matches, Truncations: out.Truncations}
})

var systemGC = calls.Call(wire.SystemGC, calls.Fixed(&wire.Empty{}), func(*calls.Request, *wire.Written) (any, error) {
	return calls.None{}, nil
})

func (s *Server) status(r *calls.Request) (*wire.SystemStatusReply, error) {
	return wire.SystemStatus.Call(r.Context(), s.cfg.Servers, &wire.Empty{})
}

func (s *Server) leader(r *calls.Request) (any, error) {
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

func (s *Server) regions(*calls.Request) (any, error) { return []string{s.cfg.Region}, nil }
