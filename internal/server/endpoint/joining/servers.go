package joining

import (
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
	// Remove ends the part of one that is in no list.
	Remove(ctx context.Context, name string) error
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

// announce takes down where a server is found. Each speaks for itself: by its own connection, or within this process.
func (e *Endpoints) announce(ctx context.Context, req *wire.AnnounceRequest) (*wire.Written, error) {
	relays := wire.Relays(ctx)
	leads := len(relays) == 0
	if !leads && relays[0] != req.Name || leads && req.Name != e.cfg.Servers.Name() {
		return nil, fault.New(fault.Denied, "speak for", fmt.Sprintf("server %q", req.Name),
			"the caller is another one")
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

// remove takes a server out of the cluster. What keeps the log follows the list.
func (e *Endpoints) remove(ctx context.Context, req *wire.ServerRef) (*wire.Written, error) {
	snap := e.cfg.Store.Snapshot()
	if m := snap.Member(nil, trust.Server, req.Name); m == nil {
		return &wire.Written{Index: snap.Index()}, e.cfg.Servers.Remove(ctx, req.Name)
	}
	_, index, err := e.cfg.Proposer.Propose(ctx, &joining.ServerRemove{Name: req.Name})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person removed a server", "server", req.Name)
	return &wire.Written{Index: index}, nil
}

func (e *Endpoints) transfer(ctx context.Context, req *wire.ServerRef) (*wire.Written, error) {
	if err := e.cfg.Servers.Transfer(ctx, req.Name); err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person has another server lead", "server", req.Name)
	return &wire.Written{Index: e.cfg.Store.Snapshot().Index()}, nil
}

// listed are the servers that whoever joins may ask.
func listed(s *state.Snap) []trust.ServerAt {
	return trust.Listed(s.Members(nil, trust.Server))
}
