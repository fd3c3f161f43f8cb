package storage

import (
	"context"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/server/state"
	"berth/internal/server/views"
	"berth/internal/wire"
)

func (e *Endpoints) pluginGet(ctx context.Context, r *wire.Ref[ids.Plugin]) (*wire.One[wire.PluginView], error) {
	out := &wire.One[wire.PluginView]{}
	return out, e.cfg.Read(ctx, r.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Item = views.Of(s, w).Plugin(r.ID)
		return max(s.TableIndex(state.Plugins), s.TableIndex(state.Nodes)), nil
	})
}

func (e *Endpoints) pluginList(ctx context.Context, r *wire.Query) (*wire.List[*wire.PluginView], error) {
	out := &wire.List[*wire.PluginView]{}
	return out, e.cfg.Read(ctx, *r, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		view := views.Of(s, w)
		all := slices.DeleteFunc(view.PluginIDs(), func(id ids.Plugin) bool {
			return !strings.HasPrefix(string(id), r.Prefix)
		})
		shown, next := wire.Cut(r.Page, all, wire.KeyOfPlugin)
		out.Items, out.NextToken = make([]*wire.PluginView, len(shown)), next
		for i, id := range shown {
			out.Items[i] = view.Plugin(id)
		}
		return max(s.TableIndex(state.Plugins), s.TableIndex(state.Nodes)), nil
	})
}
