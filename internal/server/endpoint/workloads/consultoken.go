package workloads

import (
	"context"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/server/endpoint/nodes"
	"berth/internal/server/endpoint/serving"
	"berth/internal/wire"
)

// Tokens has Consul make the tokens of tasks; server/consultokens implements it.
type Tokens interface {
	Make(ctx context.Context, t consul.ServiceToken) (redact.Secret, error)
}

// consulToken hands a node the token of a task that has a part in the mesh, for the service that the task has it for
// and for no other. The node is asked for nothing but its own allocs: what it gets, it could take from their tasks.
func (e *Endpoints) consulToken(ctx context.Context, req *wire.ConsulTokenRequest) (*wire.ConsulTokenReply, error) {
	if err := e.cfg.Cluster.Confirm(ctx); err != nil {
		return nil, err // an alloc may have been stopped meanwhile, by another leader
	}
	snap := e.cfg.Store.Snapshot()
	if _, err := nodes.Obeyed(snap, nil, req.NodeIdentity); err != nil {
		return nil, err
	}
	a, t, err := nodes.Placed(snap, nil, req.Node, req.Alloc, req.Task)
	if err != nil {
		return nil, err
	}
	refused := func(kind fault.Kind, why string) error {
		return fault.New(kind, "make", fmt.Sprintf("a token of Consul for task %q of allocation %q", req.Task,
			req.Alloc), why)
	}
	if a.DesiredStatus != alloc.DesiredRun {
		return nil, refused(fault.Denied, "the allocation is to end")
	}
	j := snap.JobOf(nil, a)
	g := j.Group(a.TaskGroup)
	of := g.ServiceOf(t)
	switch {
	case !t.Kind.InMesh():
		return nil, refused(fault.Denied, "the task has no part in the mesh")
	case of == nil:
		return nil, refused(fault.Denied, fmt.Sprintf("its group has no service %q that the task has its part for",
			t.Kind.Service()))
	case of.Name != req.Service:
		return nil, refused(fault.Denied, fmt.Sprintf("the task has its part for service %q, not for %q", of.Name,
			req.Service))
	}
	name, err := service.NameOf(service.Source{Alloc: a, Job: j, Node: snap.Node(nil, a.Node)}, ownerOf(g, of), of)
	if err != nil {
		return nil, err
	}
	if e.cfg.Record == nil {
		return e.handOut(ctx, a, t.Name, name)
	}
	end, err := e.cfg.Record(deed(ctx, req, a))
	if err != nil {
		return nil, err
	}
	reply, err := e.handOut(ctx, a, t.Name, name)
	if err = end(err); err != nil {
		return nil, err
	}
	return reply, nil
}

// ownerOf is the task that a service belongs to; nil: the group.
func ownerOf(g *job.TaskGroup, s *job.Service) *job.Task {
	for t, of := range g.AllServices() {
		if of == s {
			return t
		}
	}
	return nil
}

func (e *Endpoints) handOut(ctx context.Context, a *alloc.Alloc, task, service string) (*wire.ConsulTokenReply, error) {
	secret, err := e.cfg.Tokens.Make(ctx, consul.ServiceToken{
		Alloc:   a.ID,
		Task:    task,
		Node:    a.Node,
		Service: service,
	})
	if err != nil {
		return nil, err
	}
	return &wire.ConsulTokenReply{Token: wire.SealSecret(secret)}, nil
}

// deed is what is recorded of a token.
func deed(ctx context.Context, req *wire.ConsulTokenRequest, a *alloc.Alloc) serving.Deed {
	d := serving.Deed{
		Who:       "node " + string(req.Node),
		Known:     true,
		From:      "node " + string(req.Node),
		Method:    "Node.ConsulToken",
		Namespace: a.Namespace,
		Object:    string(a.ID) + " " + req.Task,
	}
	if who, known := wire.Caller(ctx); known {
		d.From = who.String() + " at " + wire.CallerAddr(ctx)
	}
	return d
}
