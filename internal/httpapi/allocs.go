package httpapi

import (
	"slices"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/wire"
)

// allocLines shows a list of allocs as it comes.
func allocLines(_ *request, out *wire.AllocListReply) (any, error) {
	return rows(out.Items, convert.AllocLine(out)), nil
}

func evalRow(e *eval.Eval) any { return convert.Eval(e, nil) }

// wholeID refuses what is no full id, with the text that clients know; lists take prefixes.
func wholeID(kind, id string) error {
	if !ids.IsUUID(id) {
		return fault.New(fault.Conflict, "", "", kind+" lookup failed: index error: UUID must be 36 characters")
	}
	return nil
}

var allocList = read(wire.AllocList, listBy(), func(r *request, out *wire.AllocListReply) (any, error) {
	return table[alloc.Bundle]{
		key: func(b alloc.Bundle) string { return wire.KeyOfAlloc(b.Alloc) },
		row: func(b alloc.Bundle) any { return convert.AllocLine(out)(b) },
	}.show(r, out.Items, out.NextToken)
})

// allocForm answers with a form of the alloc that the path names.
func allocForm(form func(*wire.AllocReply) any) handler {
	return read(wire.AllocGet, byID[ids.Alloc]("alloc"), func(_ *request, out *wire.AllocReply) (any, error) {
		return shown(out.Alloc, "alloc", func(*alloc.Alloc) any { return form(out) })
	})
}

var (
	allocGet = allocForm(func(out *wire.AllocReply) any { return convert.Alloc(out.Bundle, out.Storage) })
)

var allocStop = write(wire.AllocStop, func(r *request) (*wire.AllocStopRequest, error) {
	id := r.PathValue("id")
	return &wire.AllocStopRequest{
		Namespace:       r.ns,
		Alloc:           ids.Alloc(id),
		NoShutdownDelay: r.flag("no_shutdown_delay"),
		Reschedule:      r.flag("reschedule"),
	}, wholeID("alloc", id)
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

func showEvals(r *request, out *wire.List[*eval.Eval]) (any, error) {
	return table[*eval.Eval]{
		key: wire.KeyOfEval,
		row: evalRow,
	}.show(r, chosenEvals(r, out.Items), out.NextToken)
}

var (
	evalList  = read(wire.EvalList, listBy("job", "status"), showEvals)
	evalCount = read(wire.EvalList, listBy("job", "status"), func(r *request, out *wire.List[*eval.Eval]) (any, error) {
		list, err := showEvals(r, out)
		if err != nil {
			return nil, err
		}
		meta := api.QueryMeta{Index: out.Index, KnownLeader: out.KnownLeader}
		return &api.EvalCountResponse{Count: len(list.([]any)), QueryMeta: meta}, nil
	})
)

var evalGet = read(wire.EvalGet, byID[ids.Eval]("eval"), func(r *request, out *wire.EvalReply) (any, error) {
	return shown(out.Eval, "eval", func(e *eval.Eval) any {
		if !r.flag("related") {
			return convert.Eval(e, nil)
		}
		return convert.Eval(e, out.Related)
	})
})

var evalAllocs = read(wire.EvalAllocs, byID[ids.Eval]("eval"), allocLines)
