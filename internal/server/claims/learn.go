package claims

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/plugin"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// learnPlugins keeps a record of what plugins said of themselves, for the time when none of their instances lives.
func (k *Keeper) learnPlugins(ctx context.Context) error {
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		for _, next := range learned(s, w) {
			if old := s.Plugin(nil, next.ID); old != nil && *old == *next {
				continue
			}
			_, _, err := k.cfg.Proposer.Propose(ctx, &fsm.PluginLearn{Record: next})
			if err := fault.Note(err, "learn plugin", string(next.ID)); err != nil {
				k.cfg.Log.Error("what a plugin said of itself cannot be stored", logkey.Plugin, next.ID, logkey.Error, err)
			}
		}
		if err := w.Wait(ctx); err != nil {
			return nil
		}
	}
}

// learned brings the plugins' records up to what their healthy instances say: per role the one that said it last.
func learned(s *state.Snap, w *state.Watch) []*plugin.Record {
	type role struct {
		id   ids.Plugin
		role plugin.Role
	}
	newest := map[role]*plugin.Instance{}
	for n := range s.Nodes(w, "") {
		for _, i := range n.CSI {
			key := role{i.Plugin, i.Role}
			if i.Healthy() && (newest[key] == nil || i.Updated.After(newest[key].Updated)) {
				newest[key] = i
			}
		}
	}
	records := map[ids.Plugin]*plugin.Record{}
	for _, key := range slices.SortedFunc(maps.Keys(newest), func(a, b role) int {
		return cmp.Or(cmp.Compare(a.id, b.id), -cmp.Compare(a.role, b.role)) // the controller last: its version is the plugin's
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

func learn(r *plugin.Record, i *plugin.Instance) {
	r.Provider, r.Version = i.Provider, i.Version
	r.Topology = i.Capabilities.Topology
	switch i.Role {
	case plugin.RoleController:
		r.Negotiated, r.Controller, r.NeedsAttach, r.Scope = true, i.Capabilities, i.Capabilities.Attach, i.Scope
	case plugin.RoleNode:
		r.NodeNegotiated, r.NodeCaps, r.NeedsStage = true, i.Capabilities, i.Capabilities.Stage
		if !i.Capabilities.ControllerService {
			r.Negotiated = true // a plugin without a controller service needs no attaching
		}
	}
}
