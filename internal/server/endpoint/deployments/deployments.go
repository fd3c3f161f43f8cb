// Package deployments owns the answers about deployments, and what people decide about them. Who may ask is judged
// before. Only package endpoint constructs it.
package deployments

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/model/acl"
	"berth/internal/model/deployment"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/deployments"
	"berth/internal/server/state"
	"berth/internal/server/views"
	"berth/internal/wire"
)

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer fsm.Proposer
	Log      *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.DeploymentList, e.list)
	serving.Unary(e.cfg.Base, s, wire.DeploymentGet, e.get)
	serving.Unary(e.cfg.Base, s, wire.DeploymentOfJob, e.ofJob)
	serving.Unary(e.cfg.Base, s, wire.DeploymentPromote, e.promote)
	serving.Unary(e.cfg.Base, s, wire.DeploymentFail, e.fail)
	serving.Unary(e.cfg.Base, s, wire.DeploymentPause, e.pause)
	serving.Unary(e.cfg.Base, s, wire.DeploymentSetHealth, e.setHealth)
}

// Reply is a list of deployments.
type Reply = wire.List[*progress.View]

// list shows the deployments of the namespaces in which the caller may read jobs, by creation.
func (e *Endpoints) list(ctx context.Context, req *wire.Query) (*Reply, error) {
	out := &Reply{}
	return out, e.cfg.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		var all []*deployment.Deployment
		sees := serving.Sees(ctx, acl.ReadJob)
		for d := range s.Deployments(w, serving.UUIDPrefix(req.Prefix)) {
			asked := req.Namespace == "" || req.Namespace == wire.AllNamespaces || req.Namespace == d.Namespace
			if asked && sees(d.Namespace) {
				all = append(all, d)
			}
		}
		slices.SortFunc(all, byCreation)
		var shown []*deployment.Deployment
		shown, out.NextToken = wire.Cut(req.Page, all, wire.KeyOfDeployment)
		out.Items = nil
		index := s.TableIndex(state.Deployments)
		for _, d := range shown {
			v, at := views.Deployment(s, w, d)
			out.Items, index = append(out.Items, v), max(index, at)
		}
		return index, nil
	})
}

func byCreation(a, b *deployment.Deployment) int {
	return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
}

func (e *Endpoints) get(ctx context.Context, req *wire.Ref[ids.Deployment]) (*wire.One[progress.View], error) {
	out := &wire.One[progress.View]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Item = nil
		d := s.Deployment(w, req.ID)
		if d == nil {
			return s.TableIndex(state.Deployments), nil
		}
		var index uint64
		out.Item, index = views.Deployment(s, w, d)
		return index, nil
	})
}

// ofJob shows the deployments of a job, the newest first.
func (e *Endpoints) ofJob(ctx context.Context, req *wire.JobDeploymentsRequest) (*Reply, error) {
	out := &Reply{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Items = nil
		j := s.Job(w, req.Namespace, req.Job)
		all := slices.Collect(s.DeploymentsByJob(w, req.Namespace, req.Job))
		if !req.All {
			all = slices.DeleteFunc(all, func(d *deployment.Deployment) bool {
				return j == nil || d.JobCreateIndex != j.CreateIndex
			})
		}
		slices.SortFunc(all, func(a, b *deployment.Deployment) int { return byCreation(b, a) })
		index := s.ReadIndex(state.Deployments)
		if req.Latest && len(all) > 1 {
			all = all[:1]
		}
		for _, d := range all {
			v, at := views.Deployment(s, w, d)
			out.Items, index = append(out.Items, v), max(index, at)
		}
		return index, nil
	})
}

func (e *Endpoints) promote(ctx context.Context, req *wire.DeploymentPromoteRequest) (*wire.DeploymentReply, error) {
	return e.decide(ctx, &deployments.Promote{Deployment: req.Deployment, Groups: req.Groups, Seed: ids.New()})
}

func (e *Endpoints) pause(ctx context.Context, req *wire.DeploymentPauseRequest) (*wire.DeploymentReply, error) {
	return e.decide(ctx, &deployments.Pause{Deployment: req.Deployment, Pause: req.Pause, Seed: ids.New()})
}

func (e *Endpoints) fail(ctx context.Context, req *wire.DeploymentRequest) (*wire.DeploymentReply, error) {
	return e.decide(ctx, &deployments.Fail{Deployment: req.Deployment, Seed: ids.New()})
}

func (e *Endpoints) setHealth(ctx context.Context, req *wire.DeploymentHealthRequest) (*wire.DeploymentReply, error) {
	return e.decide(ctx, &deployments.SetHealth{
		Deployment: req.Deployment,
		Healthy:    req.Healthy,
		Unhealthy:  req.Unhealthy,
		Seed:       ids.New(),
	})
}

func (e *Endpoints) decide(ctx context.Context, cmd fsm.Command) (*wire.DeploymentReply, error) {
	done, index, err := fsm.Propose[*deployments.Decided](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	out := &wire.DeploymentReply{
		DeploymentModifyIndex: index,
		RevertedJobVersion:    done.Reverted,
		Index:                 index,
		Warnings:              done.Warnings,
	}
	if done.Eval != nil {
		out.Eval, out.EvalCreateIndex = done.Eval.ID, done.Eval.CreateIndex
	}
	return out, nil
}
