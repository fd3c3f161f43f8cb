// Package claims owns what follows from claims on the servers: it attaches volumes to the nodes that hold claims,
// detaches them when nobody does, ends claims by the nodes' reports, and gives nodes their mount permissions. The
// planner creates claims; nobody else ends them.
package claims

import (
	"context"
	"log/slog"

	"berth/internal/base/lifecycle"
	"berth/internal/base/reconcile"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
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
	cfg      Config
	verifier controllers.Verifier
	loop     *reconcile.Loop[volume.StagingKey]
	rests    controllers.Rests[volume.AttachmentKey]
}

// parallel is how many volumes of one plugin may wait for a call at once. How many calls a node makes at once it says
// itself (package controllers).
const parallel = 512

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{
		cfg:      cfg,
		verifier: controllers.Verifier{Store: cfg.Store, Nodes: cfg.Nodes},
	}
	k.loop = reconcile.New(reconcile.Config{Name: "attachments", Parallel: parallel, Log: cfg.Log}, k.work).
		GroupBy(func(id volume.StagingKey) string { return string(id.Plugin) })
	return k
}

// Run keeps attachments and plugin records in step with the state until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"attachments": k.loop.Run,
		"watch":       k.watch,
		"plugins":     k.learnPlugins,
	})
}

// watch marks the volumes whose facts may have changed. Only volumes with claims or attachments have facts.
func (k *Keeper) watch(ctx context.Context) error {
	for {
		w := state.NewWatch()
		w.Add(k.cfg.Dispatch.Changed())
		s := k.cfg.Store.Snapshot()
		seen := map[volume.StagingKey]bool{}
		mark := func(id volume.StagingKey) {
			if !seen[id] {
				seen[id] = true
				providerOf(s, w, id)
				k.loop.Mark(id)
			}
		}
		for c := range s.Claims(w) {
			mark(c.Staging())
		}
		for a := range s.Attachments(w) {
			mark(a.Staging())
			for range s.InventoriesOf(w, a.Staging()) {
				break
			}
		}
		for range s.Plugins(w, "") {
			break
		}
		for range s.Nodes(w, "") {
			break
		}
		if err := w.Wait(ctx); err != nil {
			return nil
		}
	}
}
