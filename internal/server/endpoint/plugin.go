package endpoint

import (
	"context"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/server/state"
	"berth/internal/server/views"
	"berth/internal/wire"
)

func (e *Endpoints) pluginGet(ctx context.Context, r *wire.PluginRef) (*wire.PluginReply, error) {
	out := &wire.PluginReply{}
	return out, e.read(ctx, r.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Plugin = views.Of(s, w).Plugin(r.Plugin)
		return max(s.TableIndex(state.Plugins), s.TableIndex(state.Nodes)), nil
	})
}

func (e *Endpoints) pluginList(ctx context.Context, r *wire.Query) (*wire.PluginListReply, error) {
	out := &wire.PluginListReply{}
	return out, e.read(ctx, *r, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		view := views.Of(s, w)
		all := slices.DeleteFunc(view.PluginIDs(), func(id ids.Plugin) bool {
			return !strings.HasPrefix(string(id), r.Prefix)
		})
		shown, next := wire.Cut(r.Page, all, wire.KeyOfPlugin)
		out.Plugins, out.NextToken = make([]*wire.PluginView, len(shown)), next
		for i, id := range shown {
			out.Plugins[i] = view.Plugin(id)
		}
		return max(s.TableIndex(state.Plugins), s.TableIndex(state.Nodes)), nil
	})
}
