// Package launches owns the answers to those who have jobs launched that others describe. Who may ask is judged before.
// Only package endpoint constructs it.
package launches

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/launches"
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
	serving.Unary(e.cfg.Base, s, wire.JobDispatch, e.dispatch)
	serving.Unary(e.cfg.Base, s, wire.JobForce, e.force)
}

func (e *Endpoints) dispatch(ctx context.Context, req *wire.JobDispatchRequest) (*wire.JobLaunchReply, error) {
	return e.launched(ctx, &launches.Dispatch{
		Namespace:        req.Namespace,
		Job:              req.Job,
		Payload:          req.Payload,
		Meta:             req.Meta,
		IdempotencyToken: req.IdempotencyToken,
		IDPrefix:         req.IDPrefix,
		Priority:         req.Priority,
		Seed:             ids.New(),
	})
}

func (e *Endpoints) force(ctx context.Context, req *wire.JobForceRequest) (*wire.JobLaunchReply, error) {
	return e.launched(ctx, &launches.Force{Namespace: req.Namespace, Job: req.Job, Seed: ids.New()})
}

func (e *Endpoints) launched(ctx context.Context, cmd fsm.Command) (*wire.JobLaunchReply, error) {
	done, index, err := fsm.Propose[*launches.Launched](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	out := &wire.JobLaunchReply{Child: done.Child.ID, JobCreateIndex: done.Child.CreateIndex, Index: index}
	if done.Eval != nil {
		out.Eval, out.EvalCreateIndex = done.Eval.ID, done.Eval.CreateIndex
	}
	return out, nil
}
