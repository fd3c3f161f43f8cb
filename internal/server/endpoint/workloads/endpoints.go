// Package workloads owns the answer to nodes that ask for signed identities of the tasks that they run. Only package
// endpoint constructs it.
package workloads

import (
	"context"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/server/endpoint/nodes"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Signer signs with the cluster's key; keyring.Signer implements it.
type Signer interface {
	Sign(ctx context.Context, s *state.Snap, statement *workload.Statement) (redact.Secret, error)
}

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Signer Signer
	Region string
	Issuer string // that identities name; empty: none
	Tokens Tokens // of Consul
	// Record writes down that a token is handed out, before it is; nil: nothing is.
	Record serving.Recorder
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.NodeIdentities, e.identities)
	serving.Unary(e.cfg.Base, s, wire.NodeServiceIdentity, e.service)
	serving.Unary(e.cfg.Base, s, wire.NodeConsulToken, e.consulToken)
}

// identities signs for a node what tasks of it are to show. The node is asked for nothing but its own allocs: what it
// gets, it could say in their name.
func (e *Endpoints) identities(ctx context.Context, req *wire.IdentitiesRequest) (*wire.IdentitiesReply, error) {
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
	subject := fmt.Sprintf("identities of task %q of allocation %q", req.Task, req.Alloc)
	if a.DesiredStatus != alloc.DesiredRun {
		return nil, fault.New(fault.Denied, "sign", subject, "the allocation is to end")
	}
	out, g := &wire.IdentitiesReply{}, snap.JobOf(nil, a).Group(a.TaskGroup)
	for _, name := range req.Names {
		id := workload.Named(g, t, name)
		if id == nil {
			return nil, fault.New(fault.Invalid, "sign", subject, fmt.Sprintf("the task has no identity %q", name))
		}
		signed, err := e.sign(ctx, snap, a, t.Name, id)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, signed)
	}
	return out, nil
}

// service signs for a node the identity of a service of an alloc that it runs, whether a task is shown it or not.
func (e *Endpoints) service(ctx context.Context, req *wire.ServiceIdentityRequest) (*wire.SignedIdentity, error) {
	if err := e.cfg.Cluster.Confirm(ctx); err != nil {
		return nil, err
	}
	snap := e.cfg.Store.Snapshot()
	if _, err := nodes.Obeyed(snap, nil, req.NodeIdentity); err != nil {
		return nil, err
	}
	a, g, err := nodes.PlacedGroup(snap, nil, req.Node, req.Alloc)
	if err != nil {
		return nil, err
	}
	subject := fmt.Sprintf("the identity of service %q of allocation %q", req.Service, req.Alloc)
	if a.DesiredStatus != alloc.DesiredRun {
		return nil, fault.New(fault.Denied, "sign", subject, "the allocation is to end")
	}
	_, of := workload.Service(g, req.Task, req.Service, req.Port)
	if of == nil || of.Identity == nil {
		return nil, fault.New(fault.Invalid, "sign", subject, "the job gives no such service an identity")
	}
	signed, err := e.sign(ctx, snap, a, "", of.Identity)
	if err != nil {
		return nil, err
	}
	return &signed, nil
}

// sign signs one identity: of a task, or of a service where it is of one.
func (e *Endpoints) sign(
	ctx context.Context, snap *state.Snap, a *alloc.Alloc, task string, id *job.WorkloadIdentity,
) (wire.SignedIdentity, error) {
	s := &workload.Statement{
		Alloc:    a,
		Task:     task,
		Identity: id,
		Region:   e.cfg.Region,
		Issuer:   e.cfg.Issuer,
		Now:      time.Now(),
		Place:    placeOf(snap, a),
	}
	j := snap.JobOf(nil, a)
	if t, of := workload.ServiceOf(j.Group(a.TaskGroup), id); of != nil {
		var err error
		s.Service, err = service.NameOf(service.Source{Alloc: a, Job: j, Node: snap.Node(nil, a.Node)}, t, of)
		if err != nil {
			return wire.SignedIdentity{}, fault.Note(err, "sign", fmt.Sprintf("the identity of service %q", of.Name))
		}
	}
	token, err := e.cfg.Signer.Sign(ctx, snap, s)
	if err != nil {
		return wire.SignedIdentity{}, err
	}
	return wire.SignedIdentity{Token: wire.SealSecret(token), Lives: id.TTL}, nil
}

// placeOf is where an alloc runs.
func placeOf(s *state.Snap, a *alloc.Alloc) (out workload.Place) {
	if j := s.JobOf(nil, a); j != nil {
		out.JobPool = j.NodePool
	}
	if n := s.Node(nil, a.Node); n != nil {
		out.Datacenter = n.Datacenter
		out.NodePool, out.NodeClass = n.NodePool, n.NodeClass
	}
	return out
}
