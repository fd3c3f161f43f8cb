// Package workloads owns the answer to nodes that ask for signed identities of the tasks that they run. Only package
// endpoint constructs it.
package workloads

import (
	"context"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/workload"
	"berth/internal/server/endpoint/nodes"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Signer signs with the cluster's key; keyring.Signer implements it.
type Signer interface {
	Sign(s *state.Snap, statement *workload.Statement) (redact.Secret, error)
}

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Signer Signer
	Region string
	Issuer string // that identities name; empty: none
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.NodeIdentities, e.identities)
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
	out := &wire.IdentitiesReply{}
	for _, name := range req.Names {
		id := workload.Named(t, name)
		if id == nil {
			return nil, fault.New(fault.Invalid, "sign", subject, fmt.Sprintf("the task has no identity %q", name))
		}
		token, err := e.cfg.Signer.Sign(snap, &workload.Statement{
			Alloc:    a,
			Task:     t.Name,
			Identity: id,
			Region:   e.cfg.Region,
			Issuer:   e.cfg.Issuer,
			Now:      time.Now(),
		})
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, wire.SignedIdentity{Token: wire.SealSecret(token), Lives: id.TTL})
	}
	return out, nil
}
