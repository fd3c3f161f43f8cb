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
	var seen state.Cursor
	plugins, again := uint64(0), false
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		for range s.Plugins(w, "") {
			break
		}
		news, known := s.News(w, &seen)
		at := s.TableIndex(state.Plugins)
		missing := false
		for n := range news {
			missing = missing || nameless(s, n)
		}
		if again || !known || at != plugins || missing {
			plugins = at
			if again = !k.nameAll(ctx, s); again {
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

// nameless reports whether what was written has no provider.
func nameless(s *state.Snap, n state.News) bool {
	if v := s.Volume(nil, n.Volume); v != nil && v.Status.Provider == "" {
		return true
	}
	if t := s.Tombstone(nil, n.Staging); t != nil && t.Provider == "" {
		return true
	}
	sn := s.VolumeSnapshot(nil, n.Snapshot)
	return sn != nil && sn.Provider == ""
}

// nameAll reports whether every plugin's provider could be noted where it was missing.
func (k *Keeper) nameAll(ctx context.Context, s *state.Snap) bool {
	done := true
	for r := range s.Plugins(nil, "") {
		if r.Provider == "" || !slices.Contains(holders.Owners(s, r.ID), "") {
			continue
		}
		if _, _, err := Rebind(ctx, k.cfg.Proposer, r.ID, "", r.Provider); err != nil {
			k.cfg.Log.Debug("the provider of volumes is not noted yet", logkey.Plugin, r.ID, logkey.Error, err)
			done = false
		}
	}
	return done
}
