// Package services owns the answers about services that are found. Who may ask is judged before. Only package endpoint
// constructs it.
package services

import (
	"context"
	"log/slog"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/derive/service"
	"berth/internal/model/acl"
	"berth/internal/server/catalog"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/withdrawal"
	"berth/internal/server/gateways"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer fsm.Proposer
	Entries  Entries
	Log      *slog.Logger
}

// Entries knows how what gateways do stands in Consul; server/gateways implements it.
type Entries interface {
	Of(ids.Namespace, ids.Job) []gateways.Standing
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.ServiceList, e.list)
	serving.Unary(e.cfg.Base, s, wire.ServiceGet, e.get)
	serving.Unary(e.cfg.Base, s, wire.ServiceDelete, e.remove)
	serving.Unary(e.cfg.Base, s, wire.JobServices, e.ofJob)
	serving.Unary(e.cfg.Base, s, wire.AllocServices, e.ofAlloc)
	serving.Unary(e.cfg.Base, s, wire.JobConsul, e.entries)
}

// Reply is a list of registrations.
type Reply = wire.List[*service.Registration]

// list shows the registrations of the namespaces in which the caller may read jobs.
func (e *Endpoints) list(ctx context.Context, req *wire.Query) (*Reply, error) {
	out := &Reply{}
	return out, e.cfg.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		all, index := catalog.All(s, w, req.Namespace)
		sees := serving.Sees(ctx, acl.ReadJob)
		out.Items = slices.DeleteFunc(all, func(r *service.Registration) bool { return !sees(r.Namespace) })
		return index, nil
	})
}

func (e *Endpoints) get(ctx context.Context, req *wire.ServiceGetRequest) (*Reply, error) {
	out := &Reply{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		named := catalog.Named
		if req.Consul {
			named = catalog.InConsul
		}
		all, index := named(s, w, req.Namespace, req.Name)
		if req.Choose > 0 {
			all = service.Choose(all, req.Choose, req.Key)
		}
		out.Items, out.NextToken = wire.Cut(req.Page, all, (*service.Registration).Key)
		return index, nil
	})
}

func (e *Endpoints) ofJob(ctx context.Context, req *wire.Ref[ids.Job]) (*Reply, error) {
	out := &Reply{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		var index uint64
		out.Items, index = catalog.OfJob(s, w, req.Namespace, req.ID)
		return index, nil
	})
}

func (e *Endpoints) ofAlloc(ctx context.Context, req *wire.Ref[ids.Alloc]) (*Reply, error) {
	out := &Reply{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		a := s.Alloc(w, req.ID)
		if a == nil {
			out.Items = nil
			return s.ReadIndex(state.Allocs), nil
		}
		var index uint64
		out.Items, index = catalog.OfAlloc(s, w, a)
		return index, nil
	})
}

func (e *Endpoints) entries(_ context.Context, req *wire.JobConsulRequest) (*wire.JobConsulReply, error) {
	out := &wire.JobConsulReply{}
	for _, s := range e.cfg.Entries.Of(req.Namespace, req.Job) {
		one := wire.ConsulEntry{Kind: s.Kind, Name: s.Name, Why: s.Why}
		if !s.Since.IsZero() {
			one.Since = s.Since.Unix()
		}
		out.Entries = append(out.Entries, one)
	}
	return out, nil
}

func (e *Endpoints) remove(ctx context.Context, req *wire.ServiceDeleteRequest) (*wire.Written, error) {
	_, index, err := e.cfg.Proposer.Propose(ctx, &withdrawal.Withdraw{
		Namespace: req.Namespace,
		Name:      req.Name,
		ID:        req.ID,
		Alloc:     withdrawal.AllocOf(req.ID),
	})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a registration of a service was deleted", "service", req.Name, logkey.Alloc,
		withdrawal.AllocOf(req.ID), "by", req.By)
	return &wire.Written{Index: index}, nil
}
