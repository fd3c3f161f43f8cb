package httpapi

import (
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/wire"
)

func allocStubs(list []*alloc.Alloc) []*api.AllocationListStub {
	out := make([]*api.AllocationListStub, 0, len(list))
	for _, a := range list {
		out = append(out, convert.AllocStub(a))
	}
	return out
}

func evals(list []*eval.Eval) []*api.Evaluation {
	out := make([]*api.Evaluation, 0, len(list))
	for _, e := range list {
		out = append(out, convert.Eval(e, nil))
	}
	return out
}

// wholeID refuses what is no full id, with the text that clients know; lists take prefixes.
func wholeID(kind, id string) error {
	if !ids.IsUUID(id) {
		return fault.New(fault.Conflict, "", "", kind+" lookup failed: index error: UUID must be 36 characters")
	}
	return nil
}

// hexPrefix turns a prefix of an id as clients send it into one of the stored form: hyphens are optional, digits are
// lower case.
func hexPrefix(p string) string {
	p = strings.ToLower(strings.ReplaceAll(p, "-", ""))
	var b strings.Builder
	for i, c := range p {
		if i == 8 || i == 12 || i == 16 || i == 20 {
			b.WriteByte('-')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func (s *Server) allocList(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	q.Prefix = hexPrefix(q.Prefix)
	out, err := wire.AllocList.Call(r.Context(), s.cfg.Servers, &q)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	list, err := listed(r, out.Allocs, func(a *alloc.Alloc) any { return convert.AllocStub(a) },
		func(a *alloc.Alloc) string { return convert.SortKey(a.CreateIndex, string(a.ID)) })
	return allocStubs(list), err
}

func (s *Server) allocView(r *request) (*wire.AllocReply, error) {
	id := r.PathValue("id")
	if err := wholeID("alloc", id); err != nil {
		return nil, err
	}
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	out, err := wire.AllocGet.Call(r.Context(), s.cfg.Servers, &wire.AllocRef{Query: q, Alloc: ids.Alloc(id)})
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	if out.Alloc == nil {
		return nil, missing("alloc not found")
	}
	return out, nil
}

func (s *Server) allocGet(r *request) (any, error) {
	out, err := s.allocView(r)
	if err != nil {
		return nil, err
	}
	return convert.Alloc(out.Alloc, out.Job, out.Storage), nil
}

func (s *Server) allocStop(r *request) (any, error) {
	id := r.PathValue("id")
	if err := wholeID("alloc", id); err != nil {
		return nil, err
	}
	out, err := wire.AllocStop.Call(r.Context(), s.cfg.Servers, &wire.AllocStopRequest{Alloc: ids.Alloc(id), NoShutdownDelay: r.flag("no_shutdown_delay")})
	if err != nil {
		return nil, err
	}
	r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
	return &api.AllocStopResponse{EvalID: string(out.Eval), Index: out.Index}, nil
}

func (s *Server) evalList(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	q.Prefix = hexPrefix(q.Prefix)
	out, err := wire.EvalList.Call(r.Context(), s.cfg.Servers, &q)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	kept := out.Evals[:0:0]
	for _, e := range out.Evals {
		if j, st := r.arg("job"), r.arg("status"); (j == "" || string(e.Job) == j) && (st == "" || e.Status == st) {
			kept = append(kept, e)
		}
	}
	list, err := listed(r, kept, func(e *eval.Eval) any { return convert.Eval(e, nil) },
		func(e *eval.Eval) string { return convert.SortKey(e.CreateIndex, string(e.ID)) })
	return evals(list), err
}

func (s *Server) evalRef(r *request) (*wire.EvalRef, error) {
	if err := wholeID("eval", r.PathValue("id")); err != nil {
		return nil, err
	}
	q, err := r.query()
	return &wire.EvalRef{Query: q, Eval: ids.Eval(r.PathValue("id"))}, err
}

func (s *Server) evalGet(r *request) (any, error) {
	ref, err := s.evalRef(r)
	if err != nil {
		return nil, err
	}
	out, err := wire.EvalGet.Call(r.Context(), s.cfg.Servers, ref)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	if out.Eval == nil {
		return nil, missing("eval not found")
	}
	related := out.Related
	if !r.flag("related") {
		related = nil
	}
	return convert.Eval(out.Eval, related), nil
}

func (s *Server) evalAllocs(r *request) (any, error) {
	ref, err := s.evalRef(r)
	if err != nil {
		return nil, err
	}
	out, err := wire.EvalAllocs.Call(r.Context(), s.cfg.Servers, ref)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	return allocStubs(out.Allocs), nil
}

// deployments answers truthfully that there are none: they are not built yet.
func (s *Server) deployments(r *request) (any, error) {
	r.seen(wire.Meta{Index: 1, KnownLeader: true})
	return []*api.Deployment{}, nil
}

func (s *Server) deployment(*request) (any, error) { return nil, missing("deployment not found") }
