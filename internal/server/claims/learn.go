package claims

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/fsm"
	"berth/internal/server/instances"
	"berth/internal/server/state"
)

// forgetAfter is how long a plugin without instances and volumes is remembered.
const forgetAfter = 30 * time.Second

// learnPlugins keeps a record of what plugins reported of themselves, for the time when none of their instances lives.
// A plugin that nobody runs and no volume refers to is forgotten after a while.
func (k *Keeper) learnPlugins(ctx context.Context) error {
	unused := map[ids.Plugin]time.Time{}
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		for _, next := range learned(s, w) {
			if old := s.Plugin(nil, next.ID); old != nil && *old == *next {
				continue
			}
			_, _, err := k.cfg.Proposer.Propose(ctx, &fsm.PluginLearn{Record: next})
			k.report(ctx, err, "what a plugin reported of itself cannot be stored", next.ID)
		}
		pause := k.forgetPlugins(ctx, s, w, unused)
		wctx, cancel := context.WithTimeout(ctx, pause)
		err := w.Wait(wctx)
		cancel()
		if err != nil && ctx.Err() != nil {
			return nil
		}
	}
}

// report says what went wrong. That the server stops, or leads no more, is nothing of it.
func (k *Keeper) report(ctx context.Context, err error, text string, id ids.Plugin) {
	if err != nil && ctx.Err() == nil {
		k.cfg.Log.Error(text, logkey.Plugin, id, logkey.Error, err)
	}
}

// forgetPlugins drops the records of plugins that have been unused for long enough, and returns when to look again.
func (k *Keeper) forgetPlugins(
	ctx context.Context, s *state.Snap, w *state.Watch, unused map[ids.Plugin]time.Time,
) time.Duration {
	now, pause := time.Now(), time.Hour
	run := map[ids.Plugin]bool{}
	for n := range s.Nodes(nil, "") {
		for _, i := range instances.On(s, nil, n) {
			run[i.Plugin] = true
		}
	}
	for r := range s.Plugins(w, "") {
		if run[r.ID] || refersTo(s, w, r.ID) {
			delete(unused, r.ID)
			continue
		}
		since, ok := unused[r.ID]
		if !ok {
			since, unused[r.ID] = now, now
		}
		if left := forgetAfter - now.Sub(since); left > 0 {
			pause = min(pause, left)
			continue
		}
		_, _, err := k.cfg.Proposer.Propose(ctx, &fsm.PluginForget{ID: r.ID})
		k.report(ctx, err, "a plugin that is not used cannot be forgotten", r.ID)
	}
	return pause
}

func refersTo(s *state.Snap, w *state.Watch, id ids.Plugin) bool {
	for range s.VolumesByPlugin(w, id) {
		return true
	}
	for sn := range s.VolumeSnapshots(w) {
		if sn.Plugin == id {
			return true
		}
	}
	for a := range s.Attachments(w) {
		if a.Plugin == id {
			return true
		}
	}
	return false
}

// learned brings the plugins' records up to what their healthy instances report: per role the one that was placed
// last, on a node that is down only where no other says anything.
func learned(s *state.Snap, w *state.Watch) []*plugin.Record {
	type role struct {
		id   ids.Plugin
		role plugin.Role
	}
	newest, ranks := map[role]*plugin.Instance{}, map[role]rank{}
	for n := range s.Nodes(w, "") {
		for _, i := range instances.On(s, w, n) {
			key, now := role{i.Plugin, i.Role}, rankOf(s, n, i)
			if i.Healthy() && (newest[key] == nil || ranks[key].before(now)) {
				newest[key], ranks[key] = i, now
			}
		}
	}
	records := map[ids.Plugin]*plugin.Record{}
	for _, key := range slices.SortedFunc(maps.Keys(newest), func(a, b role) int {
		// the controller last: its version is the plugin's
		return cmp.Or(cmp.Compare(a.id, b.id), -cmp.Compare(a.role, b.role))
	}) {
		r := records[key.id]
		if r == nil {
			r = &plugin.Record{ID: key.id, Scope: plugin.ScopeCluster}
			if old := s.Plugin(nil, key.id); old != nil {
				*r = *old
			}
			records[key.id] = r
		}
		learn(r, newest[key])
	}
	return slices.SortedFunc(maps.Values(records), func(a, b *plugin.Record) int { return cmp.Compare(a.ID, b.ID) })
}

// rank orders instances of a plugin by whose word is the newer one, as the servers know it: no node's clock decides.
type rank struct {
	up     bool
	placed uint64
	alloc  ids.Alloc
}

func rankOf(s *state.Snap, n *node.Node, i *plugin.Instance) rank {
	return rank{up: n.Status != node.StatusDown, placed: instances.Placed(s, i), alloc: i.Alloc}
}

func (r rank) before(o rank) bool {
	if r.up != o.up {
		return o.up
	}
	return cmp.Or(cmp.Compare(r.placed, o.placed), cmp.Compare(r.alloc, o.alloc)) < 0
}

func learn(r *plugin.Record, i *plugin.Instance) {
	r.Provider, r.Version = i.Provider, i.Version
	r.Topology = i.Capabilities.Topology
	switch i.Role {
	case plugin.RoleController:
		r.Negotiated = true
		r.Controller = i.Capabilities
		r.NeedsAttach = i.Capabilities.Attach
		r.Scope = i.Scope
	case plugin.RoleNode:
		r.NodeNegotiated = true
		r.NodeCaps = i.Capabilities
		r.NeedsStage = i.Capabilities.Stage
		if !i.Capabilities.ControllerService {
			r.Negotiated = true // a plugin without a controller service needs no attaching
		}
	}
}
