// Package orphans owns the answers to what a person decides about orphans and about nodes that will not come back. Only
// package endpoint constructs it.
package orphans

import (
	"context"
	"fmt"
	"log/slog"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/job"
	"berth/internal/server/controllers"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/adoption"
	"berth/internal/server/fsm/replacement"
	"berth/internal/server/state"
	"berth/internal/server/validate"
	"berth/internal/wire"
)

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer fsm.Proposer
	Nodes    controllers.Nodes
	Log      *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg: cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.OrphanAdopt, e.adopt)
	serving.Unary(e.cfg.Base, s, wire.NodeReplace, e.replace)
}

// adopt gives orphans of one job to the state. What they are is read from their nodes once more, and held to what the
// person was shown: a node must not submit jobs.
func (e *Endpoints) adopt(ctx context.Context, r *wire.OrphanAdoptRequest) (*wire.OrphanAdoptReply, error) {
	if len(r.Orphans) == 0 || r.Seen == "" {
		return nil, fault.New(fault.Invalid, "adopt", "orphans",
			"no allocation is named, or not the job that was shown")
	}
	cmd := &adoption.OrphanAdopt{By: r.By, Seed: ids.New()}
	for _, ref := range r.Orphans {
		o, err := e.read(ctx, ref, r.Seen)
		if err != nil {
			return nil, err
		}
		cmd.Orphans = append(cmd.Orphans, adoption.Orphan{
			Alloc:       o.Bundle.Alloc,
			Incarnation: o.Received.Incarnation,
			Volumes:     o.Volumes,
		})
		cmd.Job = o.Bundle.Job
	}
	if r.As != "" {
		cmd.Job = renamed(cmd.Job, r.As)
	}
	snap := e.cfg.Store.Snapshot()
	warnings, err := admit(snap, cmd.Job)
	if err != nil {
		return nil, err
	}
	out, index, err := fsm.Propose[*adoption.Adopted](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	for _, o := range cmd.Orphans {
		e.cfg.Log.Warn("a person adopted an orphan", logkey.Alloc, o.Alloc.ID, logkey.Job, cmd.Job.ID, logkey.Node,
			o.Alloc.Node, "by", r.By)
	}
	reply := &wire.OrphanAdoptReply{Index: index, Job: cmd.Job.ID, Warnings: warnings}
	if out.Eval != nil {
		reply.Eval = out.Eval.ID
	}
	return reply, nil
}

// admit holds the job to what a submitted one is held to.
func admit(s *state.Snap, j *job.Job) ([]string, error) {
	if err := validate.JobShape(j); err != nil {
		return nil, err
	}
	return validate.Job(s, j)
}

// renamed is the job under another id.
func renamed(j *job.Job, as ids.Job) *job.Job {
	n := *j
	if n.Name == string(n.ID) {
		n.Name = string(as)
	}
	n.ID = as
	return &n
}

// read asks a node what an orphan is.
func (e *Endpoints) read(ctx context.Context, ref wire.AgentRef, seen string) (*wire.Orphan, error) {
	conn, err := e.cfg.Nodes.Await(ctx, ref.Node)
	if err != nil {
		return nil, err
	}
	o, err := wire.AllocOrphan.Call(ctx, conn, &ref)
	if err != nil {
		return nil, err
	}
	refuse := func(text, hint string) error {
		return fault.WithHint(fault.New(fault.Conflict, "adopt", fmt.Sprintf("allocation %q", ref.Alloc), text), hint)
	}
	a, j := o.Bundle.Alloc, o.Bundle.Job
	if a == nil || j == nil || a.ID != ref.Alloc || a.Node != ref.Node || a.Job != j.ID || a.Namespace != j.Namespace {
		return nil, refuse("what its node says of it does not fit together",
			"end the orphan: berth node orphans end "+ids.Short(ref.Alloc))
	}
	digest, err := wire.DigestOf(j)
	if err != nil {
		return nil, err
	}
	if digest != seen {
		return nil, refuse("its node has another job, or another version of it, than the one that was shown",
			"adopt it by itself, and look at its job")
	}
	return o, nil
}

// replace gives up all that depends on a machine that is dead, on the word of a person.
func (e *Endpoints) replace(ctx context.Context, r *wire.NodeReplaceRequest) (*wire.NodeReplaceReply, error) {
	out, index, err := fsm.Propose[*replacement.Replaced](ctx, e.cfg.Proposer, &replacement.NodeReplace{
		Old:    r.Old,
		New:    r.New,
		Reason: r.Reason,
		By:     r.By,
	})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person attested that a node is dead and was replaced", logkey.Node, r.Old, "replaced_by", r.New,
		"reason", r.Reason, "by", r.By, "claims", len(out.Claims), "lost_volumes", len(out.Lost))
	return &wire.NodeReplaceReply{Index: index, Allocs: len(out.Allocs), Claims: len(out.Claims), Lost: out.Lost}, nil
}
