package joining

import (
	"cmp"
	"context"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Servers are those that keep the log, as the one that leads knows them.
type Servers interface {
	// List tells how they are.
	List(ctx context.Context) (wire.ServerListReply, error)
	// Progress is how far this server is.
	Progress() (*wire.ProgressReply, error)
	// TakeOff takes one out: see membership.Keeper.
	TakeOff(ctx context.Context, name string, atOnce func(*trust.Member) bool) (index uint64, err error)
	// Transfer has another one lead: that of the name, or any.
	Transfer(ctx context.Context, name string) error
	// Name is that of this server.
	Name() string
}

func (e *Endpoints) list(ctx context.Context, q *wire.Query) (*wire.ServerListReply, error) {
	out, err := e.cfg.Servers.List(ctx)
	if err != nil {
		return nil, err
	}
	err = e.cfg.Read(ctx, wire.Query{Stale: q.Stale}, &out.Meta, func(s *state.Snap, _ *state.Watch) (uint64, error) {
		return s.TableIndex(state.Members), nil
	})
	return &out, err
}

func (e *Endpoints) progress(context.Context, *wire.ProgressRequest) (*wire.ProgressReply, error) {
	return e.cfg.Servers.Progress()
}

// announce takes down where a server is found.
func (e *Endpoints) announce(ctx context.Context, req *wire.AnnounceRequest) (*wire.Written, error) {
	leads, err := e.speaks(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	if old := e.cfg.Store.Snapshot().Member(nil, trust.Server, req.Name); old != nil && old.Gone() {
		return nil, old.Accepts(req.Key)
	}
	_, index, err := e.cfg.Proposer.Propose(ctx, &joining.ServerPut{
		Name:    req.Name,
		Key:     req.Key,
		Address: req.Address,
		Seal:    req.Seal,
		Leads:   leads,
	})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Info("a server says where it is found", "server", req.Name, "address", req.Address)
	return &wire.Written{Index: index}, nil
}

// speaks makes sure that a server speaks for itself: by its own connection, or within this process.
func (e *Endpoints) speaks(ctx context.Context, name string) (leads bool, err error) {
	relays := wire.Relays(ctx)
	leads = len(relays) == 0
	if !leads && relays[0] != name || leads && name != e.cfg.Servers.Name() {
		return false, fault.New(fault.Denied, "speak for", fmt.Sprintf("server %q", name), "the caller is another one")
	}
	return leads, nil
}

// remove takes a server out of the cluster.
func (e *Endpoints) remove(ctx context.Context, req *wire.ServerRef) (*wire.Written, error) {
	index, err := e.cfg.Servers.TakeOff(ctx, req.Name, nil)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person removed a server", "server", req.Name)
	return &wire.Written{Index: index}, nil
}

// leave takes a server out of the cluster that stops for good.
func (e *Endpoints) leave(ctx context.Context, req *wire.LeaveRequest) (*wire.Written, error) {
	if _, err := e.speaks(ctx, req.Name); err != nil {
		return nil, err
	}
	index, err := e.cfg.Servers.TakeOff(ctx, req.Name, func(m *trust.Member) bool { return m.ModifyIndex > req.AsOf })
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a server leaves", "server", req.Name)
	return &wire.Written{Index: index}, nil
}

func (e *Endpoints) transfer(ctx context.Context, req *wire.ServerRef) (*wire.Written, error) {
	if err := e.cfg.Servers.Transfer(ctx, req.Name); err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person has another server lead", "server", cmp.Or(req.Name, "whichever is furthest"))
	return &wire.Written{Index: e.cfg.Store.Snapshot().Index()}, nil
}

// listed are the servers that whoever joins may ask.
func listed(s *state.Snap) []trust.ServerAt {
	return trust.Listed(s.Members(nil, trust.Server))
}
