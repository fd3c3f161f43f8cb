// Package scaling owns the answers about how groups of jobs are scaled, and what is asked of their counts. Who may ask
// is judged before. Only package endpoint constructs it.
package scaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/scaling"
	"berth/internal/server/policies"
	"berth/internal/server/state"
	"berth/internal/server/validate"
	"berth/internal/wire"
)

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer fsm.Proposer
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.JobScale, e.scale)
	serving.Unary(e.cfg.Base, s, wire.JobScaleStatus, e.status)
	serving.Unary(e.cfg.Base, s, wire.ScalingPolicyList, e.policies)
	serving.Unary(e.cfg.Base, s, wire.ScalingPolicyGet, e.policy)
}

// scale checks what would be registered as if it were submitted: what a job asks for by its count, as volumes that one
// alloc writes, may be more than there is.
func (e *Endpoints) scale(ctx context.Context, req *wire.JobScaleRequest) (*wire.JobRegisterReply, error) {
	s := e.cfg.Store.Snapshot()
	now := s.Job(nil, req.Namespace, req.Job)
	out := &wire.JobRegisterReply{}
	switch {
	case now == nil:
		return nil, fault.New(fault.NotFound, "scale", fmt.Sprintf("job %q", req.Job), "job not found")
	case now.Namespace == ids.ReservedNamespace:
		return nil, now.Reserved()
	case req.Count != nil:
		scaled, err := now.Scaled(req.Group, *req.Count)
		if err != nil {
			return nil, err
		}
		if out.Warnings, err = validate.Job(s, scaled); err != nil {
			return nil, err
		}
	}
	done, index, err := fsm.Propose[*fsm.JobRegistered](ctx, e.cfg.Proposer, &scaling.Scale{
		Namespace:   req.Namespace,
		Job:         req.Job,
		Group:       req.Group,
		Count:       req.Count,
		Message:     req.Message,
		Error:       req.Error,
		Meta:        req.Meta,
		ModifyIndex: req.ModifyIndex,
		Seed:        ids.New(),
	})
	if err != nil {
		return nil, err
	}
	out.JobModifyIndex, out.Index = done.JobModifyIndex, index
	out.Outcome = done.Outcome
	if done.Eval != nil {
		out.Eval, out.EvalCreateIndex = done.Eval.ID, done.Eval.CreateIndex
	}
	return out, nil
}

func (e *Endpoints) status(ctx context.Context, req *wire.Ref[ids.Job]) (*wire.One[wire.JobScaling], error) {
	out := &wire.One[wire.JobScaling]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Item = nil
		j := s.Job(w, req.Namespace, req.ID)
		if j == nil {
			return s.TableIndex(state.Jobs), nil
		}
		allocs := slices.Collect(s.AllocsByJob(w, j.Namespace, j.ID))
		events := s.Scalings(w, j.Namespace, j.ID)
		out.Item = statusOf(j, allocs, events)
		index := max(j.ModifyIndex, s.ReadIndex(state.Allocs, alloc.ModifyIndexes(allocs)...))
		if events != nil {
			index = max(index, events.ModifyIndex)
		}
		return index, nil
	})
}

func statusOf(j *job.Job, allocs []*alloc.Alloc, events *job.Scalings) *wire.JobScaling {
	out := &wire.JobScaling{
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobCreateIndex: j.CreateIndex,
		JobModifyIndex: j.JobModifyIndex,
		Stopped:        j.Stop,
		Groups:         map[string]wire.GroupScaling{},
	}
	for _, g := range j.TaskGroups {
		is := wire.GroupScaling{Desired: g.Count}
		if events != nil {
			is.Events = events.Groups[g.Name]
		}
		for _, a := range allocs {
			if a.TaskGroup == g.Name && a.JobCreateIndex == j.CreateIndex && !a.Terminal() {
				is = counted(is, a)
			}
		}
		out.Groups[g.Name] = is
	}
	return out
}

func counted(g wire.GroupScaling, a *alloc.Alloc) wire.GroupScaling {
	g.Placed++
	if a.ClientStatus == alloc.ClientRunning {
		g.Running++
	}
	switch {
	case a.Healthy():
		g.Healthy++
	case a.Unhealthy():
		g.Unhealthy++
	}
	return g
}

// policies shows the policies of the namespaces in which the caller may see them, by id.
func (e *Endpoints) policies(
	ctx context.Context, req *wire.ScalingPoliciesRequest,
) (*wire.List[*wire.ScalingPolicy], error) {
	out := &wire.List[*wire.ScalingPolicy]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		var all []*wire.ScalingPolicy
		sees := serving.Sees(ctx, acl.ListScalingPolicies, acl.ReadJob)
		prefix := serving.UUIDPrefix(req.Prefix)
		for j := range s.JobsWithPolicies(w, req.Namespace) {
			if !sees(j.Namespace) || req.Job != "" && req.Job != j.ID {
				continue
			}
			for p := range j.Policies() {
				if req.Type == "" || req.Type == p.Type {
					all = append(all, view(p))
				}
			}
		}
		all = slices.DeleteFunc(all, func(p *wire.ScalingPolicy) bool {
			return len(p.ID) < len(prefix) || string(p.ID)[:len(prefix)] != prefix
		})
		slices.SortFunc(all, func(a, b *wire.ScalingPolicy) int { return cmp.Compare(a.ID, b.ID) })
		out.Items, out.NextToken = wire.Cut(req.Page, all, wire.KeyOfPolicy)
		return s.TableIndex(state.Jobs), nil
	})
}

func (e *Endpoints) policy(
	ctx context.Context, req *wire.Ref[ids.Scaling],
) (*wire.One[wire.ScalingPolicy], error) {
	out := &wire.One[wire.ScalingPolicy]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Item = nil
		if p, found := policies.Find(s, w, req.ID); found {
			out.Item = view(p)
		}
		return s.TableIndex(state.Jobs), nil
	})
}

func view(p job.Policy) *wire.ScalingPolicy {
	return &wire.ScalingPolicy{
		ID:          p.ID(),
		Namespace:   p.Job.Namespace,
		Job:         p.Job.ID,
		Group:       p.Group,
		Task:        p.Task,
		Policy:      p.ScalingPolicy,
		CreateIndex: p.Job.CreateIndex,
		ModifyIndex: p.Job.JobModifyIndex,
	}
}
