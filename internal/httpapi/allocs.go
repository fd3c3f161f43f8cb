package httpapi

import (
	"slices"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/wire"
)

// allocLines shows a list of allocs as it comes.
func allocLines(_ *calls.Request, out *wire.AllocListReply) (any, error) {
	return calls.Rows(out.Items, convert.AllocLine(out)), nil
}

func evalRow(e *eval.Eval) any { return convert.Eval(e, nil) }

var allocList = calls.Read(wire.AllocList, calls.ListBy(),
	func(r *calls.Request, out *wire.AllocListReply) (any, error) {
		return calls.Table[alloc.Bundle]{
			Key: func(b alloc.Bundle) string { return wire.KeyOfAlloc(b.Alloc) },
			Row: func(b alloc.Bundle) any { return convert.AllocLine(out)(b) },
		}.Show(r, out.Items, out.NextToken)
	})

// allocForm answers with a form of the alloc that the path names.
func allocForm(form func(*wire.AllocReply) any) calls.Handler {
	return calls.Read(wire.AllocGet, calls.ByID[ids.Alloc]("alloc"),
		func(_ *calls.Request, out *wire.AllocReply) (any, error) {
			return calls.Shown(out.Alloc, "alloc", func(*alloc.Alloc) any { return form(out) })
		})
}

var (
	allocGet = allocForm(func(out *wire.AllocReply) any { return convert.Alloc(out.Bundle, out.Storage) })
)

var allocStop = calls.Write(wire.AllocStop, func(r *calls.Request) (*wire.AllocStopRequest, error) {
	id := r.PathValue("id")
	return &wire.AllocStopRequest{
		Namespace:       r.Namespace,
		Alloc:           ids.Alloc(id),
		NoShutdownDelay: r.Flag("no_shutdown_delay"),
		Reschedule:      r.Flag("reschedule"),
	}, calls.WholeID("alloc", id)
}, func(out *wire.JobRegisterReply) (uint64, any) {
	return out.Index, &api.AllocStopResponse{EvalID: string(out.Eval), Index: out.Index}
})

// chosenEvals leaves the evaluations that the query asks for.
func chosenEvals(r *calls.Request, all []*eval.Eval) []*eval.Eval {
	job, status := r.Arg("job"), r.Arg("status")
	return slices.DeleteFunc(all, func(e *eval.Eval) bool {
		return job != "" && string(e.Job) != job || status != "" && e.Status != status
	})
}

func showEvals(r *calls.Request, out *wire.List[*eval.Eval]) (any, error) {
	return calls.Table[*eval.Eval]{
		Key: wire.KeyOfEval,
		Row: evalRow,
	}.Show(r, chosenEvals(r, out.Items), out.NextToken)
}

var (
	evalList  = calls.Read(wire.EvalList, calls.ListBy("job", "status"), showEvals)
	evalCount = calls.Read(wire.EvalList, calls.ListBy("job", "status"), func(r *calls.Request,
		out *wire.List[*eval.Eval]) (any, error) {
		list, err := showEvals(r, out)
		if err != nil {
			return nil, err
		}
		meta := api.QueryMeta{Index: out.Index, KnownLeader: out.KnownLeader}
		return &api.EvalCountResponse{Count: len(list.([]any)), QueryMeta: meta}, nil
	})
)

var evalGet = calls.Read(wire.EvalGet, calls.ByID[ids.Eval]("eval"),
	func(r *calls.Request, out *wire.EvalReply) (any, error) {
		return calls.Shown(out.Eval, "eval", func(e *eval.Eval) any {
			if !r.Flag("related") {
				return convert.Eval(e, nil)
			}
			return convert.Eval(e, out.Related)
		})
	})

var evalAllocs = calls.Read(wire.EvalAllocs, calls.ByID[ids.Eval]("eval"), allocLines)
