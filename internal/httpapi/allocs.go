package httpapi

import (
	"slices"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// versionOf finds the job version of an alloc among those that a list came with.
func versionOf(a *alloc.Alloc, out *wire.AllocListReply) *job.Job {
	return out.Jobs[wire.JobKey(a.Namespace, a.Job, a.JobCreateIndex, a.JobVersion)]
}

// allocLines shows a list of allocs as it comes.
func allocLines(_ *request, out *wire.AllocListReply) (any, error) {
	return rows(out.Allocs, func(a *alloc.Alloc) *api.AllocationListStub {
		return convert.AllocStub(a, versionOf(a, out))
	}), nil
}

func evalRow(e *eval.Eval) any { return convert.Eval(e, nil) }

// wholeID refuses what is no full id, with the text that clients know; lists take prefixes.
func wholeID(kind, id string) error {
	if !ids.IsUUID(id) {
		return fault.New(fault.Conflict, "", "", kind+" lookup failed: index error: UUID must be 36 characters")
	}
	return nil
}

// ref reads the full id of the path with the parameters of a read.
func (r *request) ref(kind string) (string, wire.Query, error) {
	id := r.PathValue("id")
	if err := wholeID(kind, id); err != nil {
		return "", wire.Query{}, err
	}
	q, err := r.query()
	return id, q, err
}

var allocList = read(wire.AllocList, listBy(), func(r *request, out *wire.AllocListReply) (any, error) {
	return table[*alloc.Alloc]{
		key: wire.KeyOfAlloc,
		row: func(a *alloc.Alloc) any { return convert.AllocStub(a, versionOf(a, out)) },
	}.show(r, out.Allocs, out.NextToken)
})

// allocForm answers with a form of the alloc that the path names.
func allocForm(form func(*wire.AllocReply) any) handler {
	return read(wire.AllocGet, func(r *request) (*wire.AllocRef, error) {
		id, q, err := r.ref("alloc")
		return &wire.AllocRef{Query: q, Alloc: ids.Alloc(id)}, err
	}, func(_ *request, out *wire.AllocReply) (any, error) {
		return shown(out.Alloc, "alloc", func(*alloc.Alloc) any { return form(out) })
	})
}

var (
	allocGet = allocForm(func(out *wire.AllocReply) any { return convert.Alloc(out.Alloc, out.Job, out.Storage) })
	// noneOfAlloc answers with the list of what no alloc can have yet.
	noneOfAlloc = allocForm(func(*wire.AllocReply) any { return []any{} })
	// allocChecks answers for service checks, which are not built: none exists.
	allocChecks = allocForm(func(*wire.AllocReply) any { return map[string]any{} })
)

var allocStop = write(wire.AllocStop, func(r *request) (*wire.AllocStopRequest, error) {
	id := r.PathValue("id")
	return &wire.AllocStopRequest{Alloc: ids.Alloc(id), NoShutdownDelay: r.flag("no_shutdown_delay")},
		wholeID("alloc", id)
}, func(out *wire.JobRegisterReply) (uint64, any) {
	return out.Index, &api.AllocStopResponse{EvalID: string(out.Eval), Index: out.Index}
})

// chosenEvals leaves the evaluations that the query asks for.
func chosenEvals(r *request, all []*eval.Eval) []*eval.Eval {
	job, status := r.arg("job"), r.arg("status")
	return slices.DeleteFunc(all, func(e *eval.Eval) bool {
		return job != "" && string(e.Job) != job || status != "" && e.Status != status
	})
}

func showEvals(r *request, out *wire.EvalListReply) (any, error) {
	return table[*eval.Eval]{
		key: wire.KeyOfEval,
		row: evalRow,
	}.show(r, chosenEvals(r, out.Evals), out.NextToken)
}

var (
	evalList  = read(wire.EvalList, listBy("job", "status"), showEvals)
	evalCount = read(wire.EvalList, listBy("job", "status"), func(r *request, out *wire.EvalListReply) (any, error) {
		list, err := showEvals(r, out)
		if err != nil {
			return nil, err
		}
		meta := api.QueryMeta{Index: out.Index, KnownLeader: out.KnownLeader}
		return &api.EvalCountResponse{Count: len(list.([]any)), QueryMeta: meta}, nil
	})
)

func (r *request) evalRef() (*wire.EvalRef, error) {
	id, q, err := r.ref("eval")
	return &wire.EvalRef{Query: q, Eval: ids.Eval(id)}, err
}

var evalGet = read(wire.EvalGet, (*request).evalRef, func(r *request, out *wire.EvalReply) (any, error) {
	return shown(out.Eval, "eval", func(e *eval.Eval) any {
		if !r.flag("related") {
			return convert.Eval(e, nil)
		}
		return convert.Eval(e, out.Related)
	})
})

var evalAllocs = read(wire.EvalAllocs, (*request).evalRef, allocLines)

// deployments answers truthfully that there are none: they are not built yet.
func (s *Server) deployments(r *request) (any, error) {
	r.written(1)
	return []*api.Deployment{}, nil
}

func (s *Server) deployment(*request) (any, error) { return nil, missing("deployment not found") }
