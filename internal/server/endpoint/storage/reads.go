package storage

import (
	"context"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/instances"
	"berth/internal/server/state"
	"berth/internal/server/views"
	"berth/internal/wire"
)

func (e *Endpoints) volumeGet(ctx context.Context, r *wire.Ref[ids.Volume]) (*wire.One[wire.VolumeView], error) {
	out := &wire.One[wire.VolumeView]{}
	return out, e.cfg.Read(ctx, r.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		v := s.Volume(w, volume.ID{Namespace: r.Namespace, ID: r.ID})
		out.Item = nil
		if v == nil {
			return s.ReadIndex(state.Volumes), nil
		}
		out.Item = views.Of(s, w).Volume(v)
		out.Item.Plugin = seen(ctx, out.Item.Plugin)
		return views.VolumeIndex(s, out.Item), nil
	})
}

func (e *Endpoints) volumeList(ctx context.Context, r *wire.VolumeListRequest) (*wire.VolumeLines, error) {
	out := &wire.VolumeLines{}
	return out, e.cfg.Read(ctx, r.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		key := func(v *volume.Volume) string { return wire.KeyOfVolume(v.ID) }
		shown, next := wire.Cut(r.Page, cutFrom(ctx, s, w, r), key)
		view := views.Of(s, w)
		*out = wire.VolumeLines{Meta: out.Meta, NextToken: next}
		if r.Lines {
			out.Lines, out.Plugins = make([]wire.VolumeLine, len(shown)), map[ids.Plugin]*wire.PluginView{}
			for i, v := range shown {
				out.Lines[i], out.Plugins[v.Spec.Plugin] = view.VolumeLine(v), view.PluginLine(v.Spec.Plugin)
			}
		} else {
			out.Items = make([]*wire.VolumeView, len(shown))
			for i, v := range shown {
				out.Items[i] = view.VolumeWithNumbers(v)
			}
		}
		return max(s.TableIndex(state.Volumes), s.TableIndex(state.Claims)), nil
	})
}

// cutFrom are the volumes that the caller may see of which a page is cut: from its beginning to what the next page
// begins with, where the token says where that is; otherwise all.
func cutFrom(ctx context.Context, s *state.Snap, w *state.Watch, r *wire.VolumeListRequest) []*volume.Volume {
	enough, all := 0, s.Volumes(w, r.Namespace, r.Prefix)
	if r.PerPage > 0 && !r.Reverse {
		if from, ok := wire.VolumeAt(r.Namespace, r.NextToken); ok {
			enough, all = r.PerPage+1, s.VolumesFrom(w, from, r.Prefix)
		} else if r.NextToken == "" {
			enough = r.PerPage + 1
		}
	}
	var out []*volume.Volume
	sees := serving.Sees(ctx, acl.CSIListVolume)
	for v := range all {
		if !sees(v.ID.Namespace) {
			continue
		}
		if r.Plugin != "" && v.Spec.Plugin != r.Plugin || r.Node != "" && !views.OnNode(s, w, v, r.Node) {
			continue
		}
		if out = append(out, v); len(out) == enough {
			break
		}
	}
	return out
}

// volumeExternal asks a provider for what it has. Node-scoped plugins answer each for its node: the union is returned,
// and nodes that could not be asked make the list incomplete, never an object absent.
func (e *Endpoints) volumeExternal(
	ctx context.Context, r *wire.ExternalListRequest,
) (*wire.ProviderList[wire.ExternalVolume], error) {
	out := &wire.ProviderList[wire.ExternalVolume]{}
	page := func(n ids.Node, c wire.Conn, token string) (string, error) {
		page, err := wire.AgentListVolumes.Call(ctx, c, &wire.PluginReadRequest{
			Node:      n,
			Plugin:    r.Plugin,
			PerPage:   r.PerPage,
			NextToken: token,
		})
		if err != nil {
			return "", err
		}
		s := e.cfg.Store.Snapshot()
		for _, v := range page.Items {
			if seesProviders(ctx, s, volume.StagingKey{Plugin: r.Plugin, ExternalID: v.ExternalID}) {
				out.Items = append(out.Items, v)
			}
		}
		return page.NextToken, nil
	}
	var err error
	out.NextToken, out.Incomplete, err = e.askProvider(r.Plugin, r.NextToken, page)
	return out, err
}

// seesProviders says whether the caller may see a provider's volume: one that the cluster knows is of a namespace.
func seesProviders(ctx context.Context, s *state.Snap, k volume.StagingKey) bool {
	for v := range s.VolumesByExternalID(nil, k.Plugin, k.ExternalID) {
		if !serving.SeesOn(ctx, acl.Namespace, string(v.ID.Namespace), acl.CSIListVolume) {
			return false
		}
	}
	return true
}

// seesSnapshot is seesProviders for a snapshot, which is of a namespace by itself or by its source.
func seesSnapshot(ctx context.Context, s *state.Snap, of ids.Plugin, sn *volume.Snapshot) bool {
	for own := range s.VolumeSnapshotsByExternalID(nil, of, sn.ExternalID) {
		if !serving.SeesOn(ctx, acl.Namespace, string(own.Namespace), acl.CSIListVolume) {
			return false
		}
	}
	return sn.SourceExternalID == "" ||
		seesProviders(ctx, s, volume.StagingKey{Plugin: of, ExternalID: sn.SourceExternalID})
}

// ask reads one page of a provider's list on a node, from a token of the plugin on.
type ask func(n ids.Node, c wire.Conn, token string) (next string, err error)

// askProvider puts a listing question to a plugin: to one controller for cluster scope, to all for node scope.
func (e *Endpoints) askProvider(id ids.Plugin, token string, page ask) (next string, incomplete []string, err error) {
	s, subject := e.cfg.Store.Snapshot(), `plugin "`+string(id)+`"`
	rec := s.Plugin(nil, id)
	if rec == nil {
		return "", nil, fault.New(fault.NotFound, "list", subject, "plugin not found")
	}
	executor, why := e.cfg.Controllers.Executor(s, id, "")
	if executor == "" {
		return "", nil, fault.New(fault.NotReady, "list", subject, why)
	}
	if rec.Scope == plugin.ScopeNode {
		return e.askNodes(controllerNodes(s, id), token, page)
	}
	conn, err := e.cfg.Nodes.NodeConn(executor)
	if err != nil {
		return "", nil, err
	}
	next, err = page(executor, conn, token)
	return next, nil, err
}

// askNodes asks node after node. The token carries the node that goes on before the token of its plugin.
func (e *Endpoints) askNodes(nodes []ids.Node, token string, page ask) (next string, incomplete []string, err error) {
	from, inner, resumed := strings.Cut(token, "/")
	for _, n := range nodes {
		if resumed && string(n) < from {
			continue
		}
		at := ""
		if resumed && string(n) == from {
			at = inner
		}
		conn, err := e.cfg.Nodes.NodeConn(n)
		if err == nil {
			next, err = page(n, conn, at)
		}
		switch {
		case fault.Has(err, fault.Unavailable):
			incomplete = append(incomplete, string(n))
		case err != nil:
			return "", incomplete, err
		case next != "":
			return string(n) + "/" + next, incomplete, nil
		}
	}
	return "", incomplete, nil
}

func controllerNodes(s *state.Snap, id ids.Plugin) []ids.Node {
	var out []ids.Node
	for n := range s.Nodes(nil, "") {
		if slices.ContainsFunc(instances.On(s, nil, n), func(i *plugin.Instance) bool {
			return i.Plugin == id && i.Role == plugin.RoleController
		}) {
			out = append(out, n.ID)
		}
	}
	return out
}
