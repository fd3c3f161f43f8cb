package endpoint

import (
	"context"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// deploymentAllocs lists what a deployment placed, or took over.
func (e *Endpoints) deploymentAllocs(
	ctx context.Context, req *wire.Ref[ids.Deployment],
) (*wire.AllocListReply, error) {
	out := &wire.AllocListReply{}
	return out, e.base.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Items, out.NextToken = nil, ""
		d := s.Deployment(w, req.ID)
		if d == nil {
			return s.TableIndex(state.Deployments), nil
		}
		all := slices.DeleteFunc(slices.Collect(s.AllocsByJob(w, d.Namespace, d.Job)),
			func(a *alloc.Alloc) bool { return a.Deployment != d.ID })
		index := s.ReadIndex(state.Allocs, append(alloc.ModifyIndexes(all), d.CreateIndex)...)
		fillAllocs(s, req.Query, slices.Values(all), each, out)
		return index, nil
	})
}
