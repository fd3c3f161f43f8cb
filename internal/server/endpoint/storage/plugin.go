package storage

import (
	"context"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/state"
	"berth/internal/server/views"
	"berth/internal/wire"
)

func (e *Endpoints) pluginGet(ctx context.Context, r *wire.Ref[ids.Plugin]) (*wire.One[wire.PluginView], error) {
	out := &wire.One[wire.PluginView]{}
	return out, e.cfg.Read(ctx, r.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Item = seen(ctx, views.Of(s, w).Plugin(r.ID))
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
			out.Items[i] = seen(ctx, view.Plugin(id))
		}
		return max(s.TableIndex(state.Plugins), s.TableIndex(state.Nodes)), nil
	})
}

// seen is a plugin without the allocs that the caller may not see. How many there are is no secret of a namespace.
func seen(ctx context.Context, p *wire.PluginView) *wire.PluginView {
	if p == nil {
		return nil
	}
	sees := serving.Sees(ctx, acl.ReadJob)
	hidden := func(a *alloc.Alloc) bool { return !sees(a.Namespace) }
	if !slices.ContainsFunc(p.Allocs, hidden) {
		return p
	}
	out := *p
	out.Allocs, out.Orphans = slices.DeleteFunc(slices.Clone(p.Allocs), hidden), nil
	return &out
}
