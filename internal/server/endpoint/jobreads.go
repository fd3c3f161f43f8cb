package endpoint

import (
	"context"
	"iter"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/state"
	"berth/internal/server/views"
	"berth/internal/wire"
)

func (e *Endpoints) jobGet(ctx context.Context, req *wire.Ref[ids.Job]) (*wire.One[wire.JobView], error) {
	out := &wire.One[wire.JobView]{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		j := s.Job(w, req.Namespace, req.ID)
		if j == nil {
			out.Item = nil
			return s.TableIndex(state.Jobs), nil
		}
		var index uint64
		out.Item, index = views.JobView(s, w, j)
		return index, nil
	})
}

func (e *Endpoints) jobRollout(ctx context.Context, req *wire.Ref[ids.Job]) (*wire.JobRolloutReply, error) {
	out := &wire.JobRolloutReply{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		j := s.Job(w, req.Namespace, req.ID)
		if j == nil {
			out.Job = nil
			return s.TableIndex(state.Jobs), nil
		}
		var index uint64
		out.Job, index = views.JobView(s, w, j)
		fillAllocs(s, req.Query, s.AllocsByJob(w, j.Namespace, j.ID), ofItsJob(j), &out.Allocs)
		out.Evals = slices.DeleteFunc(slices.Collect(s.EvalsByJob(w, j.Namespace, j.ID)), (*eval.Eval).Terminal)
		out.Deployment = views.LatestDeployment(s, w, j)
		return index, nil
	})
}

// ofItsJob tells the allocs of a job from those of a purged predecessor with the same id.
func ofItsJob(j *job.Job) func(*alloc.Alloc) bool {
	return func(a *alloc.Alloc) bool { return a.JobCreateIndex == j.CreateIndex }
}

func (e *Endpoints) jobList(ctx context.Context, req *wire.Query) (*wire.List[*wire.JobView], error) {
	out := &wire.List[*wire.JobView]{}
	return out, e.base.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		var all []*job.Job
		sees := serving.Sees(ctx, acl.ListJobs)
		for j := range s.Jobs(w, req.Namespace, req.Prefix) {
			if sees(j.Namespace) {
				all = append(all, j)
			}
		}
		shown, next := wire.Cut(req.Page, all, wire.KeyOfJob)
		index := s.TableIndex(state.Jobs)
		out.Items, out.NextToken = make([]*wire.JobView, len(shown)), next
		for i, j := range shown {
			v, at := views.JobView(s, w, j)
			out.Items[i], index = v, max(index, at)
		}
		return index, nil
	})
}

func (e *Endpoints) jobVersions(ctx context.Context, req *wire.Ref[ids.Job]) (*wire.JobVersionsReply, error) {
	out := &wire.JobVersionsReply{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		j := s.Job(w, req.Namespace, req.ID)
		if j == nil {
			out.Versions, out.Status = nil, ""
			return s.TableIndex(state.Jobs), nil
		}
		out.Versions = s.JobVersions(w, req.Namespace, req.ID)
		v, _ := views.JobView(s, nil, j)
		out.Status = v.Status
		index := j.ModifyIndex
		for _, one := range out.Versions { // an older one may have got a name since
			index = max(index, one.ModifyIndex)
		}
		return s.ReadIndex(state.JobVersions, index), nil
	})
}

func (e *Endpoints) jobSubmission(
	ctx context.Context, req *wire.JobSubmissionRequest,
) (*wire.One[job.Submission], error) {
	out := &wire.One[job.Submission]{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Item = s.Submission(w, req.Namespace, req.Job, req.Version)
		if out.Item == nil {
			return s.TableIndex(state.Submissions), nil
		}
		return out.Item.ModifyIndex, nil
	})
}

func (e *Endpoints) jobAllocs(ctx context.Context, req *wire.JobAllocsRequest) (*wire.AllocListReply, error) {
	out := &wire.AllocListReply{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		j := s.Job(w, req.Namespace, req.Job)
		all := slices.Collect(s.AllocsByJob(w, req.Namespace, req.Job))
		index := s.ReadIndex(state.Allocs, alloc.ModifyIndexes(all)...)
		shown := each[*alloc.Alloc]
		if j != nil && !req.All {
			shown = ofItsJob(j)
		}
		fillAllocs(s, req.Query, slices.Values(all), shown, out)
		return index, nil
	})
}

func (e *Endpoints) jobEvals(ctx context.Context, req *wire.Ref[ids.Job]) (*wire.List[*eval.Eval], error) {
	out := &wire.List[*eval.Eval]{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		all := slices.Collect(s.EvalsByJob(w, req.Namespace, req.ID))
		fillEvals(req.Query, slices.Values(all), each, out)
		return s.ReadIndex(state.Evals, modifiedEvals(all)...), nil
	})
}

func (e *Endpoints) evalGet(ctx context.Context, req *wire.Ref[ids.Eval]) (*wire.EvalReply, error) {
	out := &wire.EvalReply{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Eval, out.Related = s.Eval(w, req.ID), nil
		if out.Eval == nil {
			return s.TableIndex(state.Evals), nil
		}
		out.Related = related(s, w, out.Eval)
		return s.ReadIndex(state.Evals, append(modifiedEvals(out.Related), out.Eval.ModifyIndex)...), nil
	})
}

// related collects the evaluations that are chained to one: what it follows, what follows it, and so on.
func related(s *state.Snap, w *state.Watch, of *eval.Eval) []*eval.Eval {
	chain := map[ids.Eval]bool{of.ID: true}
	all := slices.Collect(s.EvalsByJob(w, of.Namespace, of.Job))
	for grown := true; grown; {
		grown = false
		for _, e := range all {
			linked := chain[e.PreviousEval] || chain[e.NextEval] || chain[e.BlockedEval]
			if chain[e.ID] {
				for _, id := range []ids.Eval{e.PreviousEval, e.NextEval, e.BlockedEval} {
					if id != "" && !chain[id] {
						chain[id], grown = true, true
					}
				}
			} else if linked {
				chain[e.ID], grown = true, true
			}
		}
	}
	out := slices.DeleteFunc(all, func(e *eval.Eval) bool { return !chain[e.ID] || e.ID == of.ID })
	sortEvals(out)
	return out
}

func (e *Endpoints) evalList(ctx context.Context, req *wire.Query) (*wire.List[*eval.Eval], error) {
	out := &wire.List[*eval.Eval]{}
	return out, e.base.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		sees := serving.Sees(ctx, acl.ReadJob)
		fillEvals(*req, s.Evals(w, serving.UUIDPrefix(req.Prefix)), func(ev *eval.Eval) bool {
			return within(req.Namespace, ev.Namespace) && sees(ev.Namespace)
		}, out)
		return s.TableIndex(state.Evals), nil
	})
}

func (e *Endpoints) evalAllocs(ctx context.Context, req *wire.Ref[ids.Eval]) (*wire.AllocListReply, error) {
	out := &wire.AllocListReply{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		all := slices.Collect(s.AllocsByEval(w, req.ID))
		index := s.ReadIndex(state.Allocs, alloc.ModifyIndexes(all)...)
		fillAllocs(s, req.Query, slices.Values(all), each, out)
		return index, nil
	})
}

func (e *Endpoints) allocGet(ctx context.Context, req *wire.Ref[ids.Alloc]) (*wire.AllocReply, error) {
	out := &wire.AllocReply{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Alloc = s.Alloc(w, req.ID)
		out.Job = nil
		out.Storage = nil
		if out.Alloc == nil {
			return s.TableIndex(state.Allocs), nil
		}
		out.Job = s.JobOf(w, out.Alloc)
		out.Storage = views.AllocVolumes(s, w, out.Alloc)
		return max(out.Alloc.ModifyIndex, views.AllocVolumesIndex(s, w, out.Alloc)), nil
	})
}

func (e *Endpoints) allocList(ctx context.Context, req *wire.Query) (*wire.AllocListReply, error) {
	out := &wire.AllocListReply{}
	return out, e.base.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		sees := serving.Sees(ctx, acl.ReadJob)
		fillAllocs(s, *req, s.Allocs(w, serving.UUIDPrefix(req.Prefix)), func(a *alloc.Alloc) bool {
			return within(req.Namespace, a.Namespace) && sees(a.Namespace)
		}, out)
		return s.TableIndex(state.Allocs), nil
	})
}

func (e *Endpoints) nodeAllocList(ctx context.Context, req *wire.Ref[ids.Node]) (*wire.AllocListReply, error) {
	out := &wire.AllocListReply{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		all := slices.Collect(s.AllocsByNode(w, req.ID))
		sees := serving.Sees(ctx, acl.ReadJob)
		all = slices.DeleteFunc(all, func(a *alloc.Alloc) bool { return !sees(a.Namespace) })
		index := s.ReadIndex(state.Allocs, alloc.ModifyIndexes(all)...)
		fillAllocs(s, req.Query, slices.Values(all), each, out)
		return index, nil
	})
}

// within tells whether an object's namespace is asked for.
func within(asked, of ids.Namespace) bool {
	return asked == "" || asked == wire.AllNamespaces || asked == of
}

// fillAllocs pages those of allocs that are shown, in the order of lists, and gives each its job version.
func fillAllocs(
	s *state.Snap, q wire.Query, all iter.Seq[*alloc.Alloc], shown func(*alloc.Alloc) bool, out *wire.AllocListReply,
) {
	var page []*alloc.Alloc
	page, out.NextToken = serving.ByCreation(q.Page, all, shown, createdAlloc, wire.KeyOfAlloc)
	out.Items, out.Orphans = nil, nil
	for _, a := range page {
		out.Items = append(out.Items, alloc.Bundle{Alloc: a, Job: s.JobOf(nil, a)})
		if text := views.Orphaned(s, nil, a.Node, a.ID); text != "" {
			if out.Orphans == nil {
				out.Orphans = map[ids.Alloc]string{}
			}
			out.Orphans[a.ID] = text
		}
	}
}

// fillEvals pages those of evaluations that are shown, in the order of lists.
func fillEvals(
	q wire.Query, all iter.Seq[*eval.Eval], shown func(*eval.Eval) bool, out *wire.List[*eval.Eval],
) {
	out.Items, out.NextToken = serving.ByCreation(q.Page, all, shown, createdEval, wire.KeyOfEval)
}

// each shows all of a list.
func each[T any](T) bool { return true }

func modifiedEvals(es []*eval.Eval) []uint64 {
	out := make([]uint64, len(es))
	for i, e := range es {
		out[i] = e.ModifyIndex
	}
	return out
}
