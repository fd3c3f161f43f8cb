package volumes

import (
	"context"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/server/fsm"
	"berth/internal/server/holders"
	"berth/internal/server/state"
)

// Rebind gives everything that one provider of a plugin had to the one that serves the plugin now, and returns how much
// that was.
func Rebind(ctx context.Context, p fsm.Proposer, id ids.Plugin, from, to string) (count int, index uint64, err error) {
	return fsm.Propose[int](ctx, p, &fsm.PluginRebind{Plugin: id, From: from, To: to})
}

// nameProviders notes the provider with what was stored when none was known: the first one that serves it.
func (k *Keeper) nameProviders(ctx context.Context) error {
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		for r := range s.Plugins(w, "") {
			if r.Provider == "" || !slices.Contains(holders.Owners(s, w, r.ID), "") {
				continue
			}
			if _, _, err := Rebind(ctx, k.cfg.Proposer, r.ID, "", r.Provider); err != nil {
				k.cfg.Log.Debug("the provider of volumes is not noted yet", logkey.Plugin, r.ID, logkey.Error, err)
				for range s.Nodes(w, "") { // another report of an instance, and it is tried again
					break
				}
			}
		}
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}
