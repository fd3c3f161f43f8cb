// Package claims owns what follows from claims on the servers: it attaches volumes to the nodes that hold claims,
// detaches them when nobody does, ends claims by the nodes' reports, and gives nodes their mount permissions. The
// planner creates claims; nobody else ends them.
package claims

import (
	"context"
	"log/slog"

	"berth/internal/base/lifecycle"
	"berth/internal/base/reconcile"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

// Config wires a keeper.
type Config struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Dispatch *controllers.Dispatcher
	Secrets  controllers.Secrets
	Nodes    controllers.Nodes
	Log      *slog.Logger
}

// Keeper reconciles attachments with claims. Run it on the leader alone.
type Keeper struct {
	cfg       Config
	verifier  controllers.Verifier
	loop      *reconcile.Loop[volume.StagingKey]
	rests     controllers.Rests[volume.AttachmentKey]
	open      controllers.Open[volume.StagingKey]
	shortages *reconcile.Loop[plugin.ShortageKey]
	waits     controllers.Rests[plugin.ShortageKey]
}

// parallel is how many volumes of one plugin may wait for a call at once. How many calls a node makes at once it says
// itself, and the plugin's job (package controllers).
const parallel = 2 * job.MaxCallsAtOnce

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{
		cfg:      cfg,
		verifier: controllers.Verifier{Store: cfg.Store, Nodes: cfg.Nodes},
	}
	k.loop = reconcile.New(reconcile.Config{Name: "attachments", Parallel: parallel, Log: cfg.Log}, k.work).
		GroupBy(func(id volume.StagingKey) string { return string(id.Plugin) })
	k.shortages = reconcile.New(reconcile.Config{Name: "shortages", Log: cfg.Log}, k.endShortages)
	return k
}

// Run keeps attachments and plugin records in step with the state until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"attachments":     k.loop.Run,
		"nodes":           k.watchNodes,
		"watch":           k.watch,
		"plugins":         k.learnPlugins,
		"shortages":       k.shortages.Run,
		"watch shortages": k.watchShortages,
	})
}

// watch marks the volumes about which something was written: what decides over their attachments. Without news, and
// when what is known of a plugin has changed, it marks every volume with claims or attachments.
func (k *Keeper) watch(ctx context.Context) error {
	var seen state.Cursor
	plugins := uint64(0)
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		for range s.Plugins(w, "") {
			break
		}
		news, known := s.News(w, &seen)
		if at := s.TableIndex(state.Plugins); at != plugins || !known {
			plugins = at
			k.markAll(s)
		}
		for n := range news {
			if n.Staging.ExternalID != "" {
				k.loop.Mark(n.Staging)
			}
		}
		if err := w.Wait(ctx); err != nil {
			return nil
		}
	}
}

func (k *Keeper) markAll(s *state.Snap) {
	keys := map[volume.StagingKey]bool{}
	for c := range s.Claims(nil) {
		keys[c.Staging()] = true
	}
	for a := range s.Attachments(nil) {
		keys[a.Staging()] = true
	}
	for key := range keys {
		k.loop.Mark(key)
	}
}

// watchNodes marks the volumes that wait for something whenever a node changed, its stream of calls did, or what
// suspends calls.
func (k *Keeper) watchNodes(ctx context.Context) error {
	for {
		w := state.NewWatch()
		w.Add(k.cfg.Dispatch.Changed())
		s := k.cfg.Store.Snapshot()
		for range s.Nodes(w, "") {
			break
		}
		suspension.Watch(s, w)
		k.open.Each(k.loop.Mark)
		if err := w.Wait(ctx); err != nil {
			return nil
		}
	}
}
