package httpapi

import (
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/model/node"
	"berth/internal/wire"
)

func (s *Server) nodeList(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	q.Prefix = hexPrefix(q.Prefix)
	out, err := wire.NodeList.Call(r.Context(), s.cfg.Servers, &q)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	list, err := listed(r, out.Nodes, func(n *node.Node) any { return convert.NodeStub(n, true, true) }, func(n *node.Node) string { return string(n.ID) })
	if err != nil {
		return nil, err
	}
	stubs := make([]*api.NodeListStub, 0, len(list))
	for _, n := range list {
		stubs = append(stubs, convert.NodeStub(n, r.flag("os"), r.flag("resources")))
	}
	return stubs, nil
}

func (r *request) nodeRef() (*wire.NodeRef, error) {
	if err := wholeID("node", r.PathValue("id")); err != nil {
		return nil, err
	}
	q, err := r.query()
	return &wire.NodeRef{Query: q, Node: ids.Node(r.PathValue("id"))}, err
}

func (s *Server) nodeGet(r *request) (any, error) {
	ref, err := r.nodeRef()
	if err != nil {
		return nil, err
	}
	out, err := wire.NodeGet.Call(r.Context(), s.cfg.Servers, ref)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	if out.Node == nil {
		return nil, missing("node not found")
	}
	return convert.Node(out.Node), nil
}

func (s *Server) nodeAllocs(r *request) (any, error) {
	ref, err := r.nodeRef()
	if err != nil {
		return nil, err
	}
	out, err := wire.NodeAllocList.Call(r.Context(), s.cfg.Servers, ref)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	list := make([]*api.Allocation, 0, len(out.Allocs))
	for _, a := range out.Allocs {
		list = append(list, convert.Alloc(a, out.Jobs[wire.JobKey(a.Namespace, a.Job, a.JobCreateIndex, a.JobVersion)], nil))
	}
	return list, nil
}

func (s *Server) nodeEligibility(r *request) (any, error) {
	if err := wholeID("node", r.PathValue("id")); err != nil {
		return nil, err
	}
	var body struct{ Eligibility string }
	if err := r.read(&body); err != nil {
		return nil, err
	}
	if body.Eligibility != node.Eligible && body.Eligibility != node.Ineligible {
		return nil, badRequest("Eligibility must be eligible or ineligible, is \"" + body.Eligibility + "\"")
	}
	out, err := wire.NodeEligibility.Call(r.Context(), s.cfg.Servers, &wire.NodeEligibilityRequest{Node: ids.Node(r.PathValue("id")), Eligibility: body.Eligibility})
	if err != nil {
		return nil, err
	}
	r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
	reply := struct {
		EvalIDs         []string
		EvalCreateIndex uint64
		NodeModifyIndex uint64
		Index           uint64
	}{[]string{}, out.EvalCreateIndex, out.NodeModifyIndex, out.Index}
	for _, e := range out.Evals {
		reply.EvalIDs = append(reply.EvalIDs, string(e))
	}
	return reply, nil
}

func (s *Server) namespaceList(r *request) (any, error) {
	list, err := s.namespaces(r)
	if err != nil {
		return nil, err
	}
	out := make([]*api.Namespace, 0, len(list))
	for _, n := range list {
		if strings.HasPrefix(string(n.Name), r.arg("prefix")) {
			out = append(out, namespace(n))
		}
	}
	return out, nil
}

func (s *Server) namespaceGet(r *request) (any, error) {
	list, err := s.namespaces(r)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(n wire.Namespace) bool { return string(n.Name) == r.PathValue("name") })
	if i < 0 {
		return nil, missing("Namespace not found")
	}
	return namespace(list[i]), nil
}

func (s *Server) namespaces(r *request) ([]wire.Namespace, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	q.Prefix = ""
	out, err := wire.NamespaceList.Call(r.Context(), s.cfg.Servers, &q)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	return out.Namespaces, nil
}

func namespace(n wire.Namespace) *api.Namespace {
	return &api.Namespace{Name: string(n.Name), Description: n.Description, Meta: map[string]string{}, CreateIndex: n.CreateIndex, ModifyIndex: n.ModifyIndex}
}

func (s *Server) search(r *request) (any, error) {
	var body api.SearchRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	ns := r.ns
	if body.Namespace != "" && r.arg("namespace") == "" {
		ns = ids.Namespace(body.Namespace)
	}
	out, err := wire.SystemSearch.Call(r.Context(), s.cfg.Servers, &wire.SearchRequest{Namespace: ns, Prefix: body.Prefix, Context: body.Context})
	if err != nil {
		return nil, err
	}
	r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
	return &api.SearchResponse{Matches: out.Matches, Truncations: out.Truncations}, nil
}

func (s *Server) systemGC(r *request) (any, error) {
	_, err := wire.SystemGC.Call(r.Context(), s.cfg.Servers, &wire.Empty{})
	return noReply{}, err
}

func (s *Server) aclOff(*request) (any, error) { return nil, badRequest("ACL support disabled") }

func (s *Server) status(r *request) (*wire.SystemStatusReply, error) {
	return wire.SystemStatus.Call(r.Context(), s.cfg.Servers, &wire.Empty{})
}

func (s *Server) leader(r *request) (any, error) {
	out, err := s.status(r)
	if err != nil {
		return nil, err
	}
	if out.Leader == "" {
		return nil, fault.New(fault.Unavailable, "", "", "No cluster leader")
	}
	return out.Leader, nil
}

func (s *Server) peers(r *request) (any, error) {
	out, err := s.status(r)
	if err != nil {
		return nil, err
	}
	peers := []string{}
	for _, m := range out.Members {
		peers = append(peers, hostPort(m.Addr, m.Tags["port"]))
	}
	return peers, nil
}

func (s *Server) regions(*request) (any, error) { return []string{s.cfg.Region}, nil }
