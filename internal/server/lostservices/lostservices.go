// Package lostservices owns that services of nodes which are lost leave the catalog of Consul. Who registers and takes
// away services is the agent of each node; of a machine that is gone nobody does, and Consul itself keeps what was
// there for days. Two must agree that a node is gone before anything of it is taken out: the servers, to whom it is
// down and whose word its allocs have ended by, and Consul, whose agents do not hear the one of that machine any more.
// While an agent of Consul lives, it would bring back what the catalog loses; its own checks decide there. Only package
// server constructs it.
package lostservices

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	model "berth/internal/model/consul"
	"berth/internal/model/node"
	"berth/internal/server/state"
)

// Catalog is what is asked of Consul; an agent of it implements it.
type Catalog interface {
	Gone(ctx context.Context, node string) (bool, error)
	Catalog(ctx context.Context, node string, after uint64, wait time.Duration) (map[string]model.Shown, uint64, error)
	Forget(ctx context.Context, node, id string, read model.Shown) error
}

// Config wires a keeper.
type Config struct {
	Store   *state.Store
	Catalog Catalog // nil: the servers have no agent of Consul
	// Newest makes sure that this server still leads, and that its state is what all have acknowledged.
	Newest func(context.Context) error
	Log    *slog.Logger
}

// How long a node that is down is left alone: while its agent of Consul lives, and when nothing of it is left. It may
// come back and go again, while to the servers it stays down.
const (
	whileAlive = 30 * time.Second
	afterwards = 5 * time.Minute
)

// Keeper takes services of lost nodes out of the catalog.
type Keeper struct {
	cfg Config
	log *slog.Logger
}

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	return &Keeper{cfg: cfg, log: cfg.Log.With(logkey.Component, "lost services")}
}

// Run looks at nodes that are down until ctx ends. Run it on the leader alone. Nothing of it is kept: the next leader
// looks again.
func (k *Keeper) Run(ctx context.Context) error {
	if k.cfg.Catalog == nil {
		<-ctx.Done()
		return nil
	}
	loop := reconcile.New(reconcile.Config{
		Name:     "services of lost nodes",
		Parallel: 2,
		MinPause: time.Second,
		MaxPause: time.Minute,
		Log:      k.log,
	}, k.pass)
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"look": loop.Run,
		"nodes": func(ctx context.Context) error {
			seen := map[ids.Node]uint64{}
			for ctx.Err() == nil {
				w := state.NewWatch()
				seen = mark(k.cfg.Store.Snapshot(), w, seen, loop.Mark)
				_ = w.Wait(ctx) // whatever woke it, it looks again
			}
			return nil
		},
	})
}

// mark marks the nodes that are down and of which something is another since they were seen.
func mark(s *state.Snap, w *state.Watch, before map[ids.Node]uint64, mark func(ids.Node)) map[ids.Node]uint64 {
	seen := map[ids.Node]uint64{}
	for n := range s.Nodes(w, "") {
		if !lost(n) {
			continue
		}
		seen[n.ID] = n.ModifyIndex
		for a := range s.AllocsByNode(w, n.ID) {
			seen[n.ID] = max(seen[n.ID], a.ModifyIndex)
		}
		if seen[n.ID] != before[n.ID] {
			mark(n.ID)
		}
	}
	return seen
}

// lost reports a node that is down and has registered services in Consul.
func lost(n *node.Node) bool {
	return n != nil && n.Status == node.StatusDown && n.Attributes[model.AttributeNode] != ""
}

// pass looks at one node.
func (k *Keeper) pass(ctx context.Context, id ids.Node) (reconcile.Result, error) {
	n := k.cfg.Store.Snapshot().Node(nil, id)
	if !lost(n) {
		return reconcile.Done(), nil
	}
	name := n.Attributes[model.AttributeNode]
	shown, _, err := k.cfg.Catalog.Catalog(ctx, name, 0, 0)
	if err != nil {
		return reconcile.Done(), err
	}
	if len(ended(k.cfg.Store.Snapshot(), n, shown)) == 0 {
		return reconcile.Again(afterwards, "nothing of it is registered"), nil
	}
	gone, err := k.cfg.Catalog.Gone(ctx, name)
	if err != nil {
		return reconcile.Done(), err
	}
	if !gone {
		return reconcile.Again(whileAlive, "its agent of Consul lives"), nil
	}
	if err := k.cfg.Newest(ctx); err != nil {
		return reconcile.Done(), err
	}
	s := k.cfg.Store.Snapshot()
	if n = s.Node(nil, id); !lost(n) || n.Attributes[model.AttributeNode] != name {
		return reconcile.Again(0, "it came back"), nil
	}
	for _, service := range ended(s, n, shown) {
		err := k.cfg.Catalog.Forget(ctx, name, service, shown[service])
		if fault.Has(err, fault.Conflict) {
			return reconcile.Again(whileAlive, "its services were registered anew meanwhile"), nil
		}
		if err != nil {
			return reconcile.Done(), err
		}
		k.log.Info("a service of a lost node is taken out of Consul", "service", service, logkey.Node, id)
	}
	return reconcile.Again(afterwards, "nothing of it is registered"), nil
}

// ended are those of the services that a catalog shows of a node whose allocs have ended by the word of the servers, or
// of the node. What no alloc of the state is known for stays: that it is missing there proves nothing. So does that of
// an alloc whose node is silent and which does not count as lost yet.
func ended(s *state.Snap, n *node.Node, shown map[string]model.Shown) (out []string) {
	var own []string
	for a := range s.AllocsByNode(nil, n.ID) {
		if a.Terminal() {
			own = append(own, model.OfAlloc(n.ID, a.ID))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(shown)) {
		if slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(id, prefix) }) {
			out = append(out, id)
		}
	}
	return out
}
