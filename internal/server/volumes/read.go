package volumes

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/claims"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Register serves the methods over volumes, snapshots and plugins.
func (k *Keeper) Register(s *wire.Server) {
	wire.VolumeCreate.Serve(s, k.create)
	wire.VolumeRegister.Serve(s, k.register)
	wire.VolumeExpand.Serve(s, k.expand)
	wire.VolumeDelete.Serve(s, k.delete)
	wire.VolumeDeregister.Serve(s, k.deregister)
	wire.VolumeDetach.Serve(s, k.detach)
	wire.VolumeGet.Serve(s, k.get)
	wire.VolumeList.Serve(s, k.list)
	wire.VolumeExternal.Serve(s, k.external)
	wire.SnapshotCreate.Serve(s, k.snapshotCreate)
	wire.SnapshotDelete.Serve(s, k.snapshotDelete)
	wire.SnapshotList.Serve(s, k.snapshotList)
	wire.PluginGet.Serve(s, k.pluginGet)
	wire.PluginList.Serve(s, k.pluginList)
}

func (k *Keeper) get(ctx context.Context, r *wire.VolumeRef) (*wire.VolumeReply, error) {
	out := &wire.VolumeReply{}
	err := state.Block(ctx, k.cfg.Store, r.MinIndex, r.Wait, func(s *state.Snap, w *state.Watch) (uint64, error) {
		id := volume.ID{Namespace: r.Namespace, ID: r.Volume}
		v := s.Volume(w, id)
		out.Volume, out.Meta = nil, wire.Meta{KnownLeader: true, Index: s.ReadIndex(state.Volumes)}
		if v == nil {
			return out.Index, nil
		}
		out.Volume = view(s, w, v)
		out.Index = viewIndex(s, out.Volume)
		return out.Index, nil
	})
	return out, err
}

// viewIndex is the highest index of everything that a view shows, and of the removal of what it may have shown.
func viewIndex(s *state.Snap, v *wire.VolumeView) uint64 {
	index := max(s.ReadIndex(state.Volumes, v.Volume.ModifyIndex), s.ReadIndex(state.Claims), s.ReadIndex(state.Attachments), s.ReadIndex(state.Inventories))
	for i := range s.InventoryByVolume(nil, v.Volume.ID) {
		index = max(index, i.ModifyIndex)
	}
	for _, a := range v.Allocs {
		index = max(index, a.ModifyIndex)
	}
	for _, c := range v.Claims {
		index = max(index, c.ModifyIndex)
	}
	for _, a := range v.Attachments {
		index = max(index, a.ModifyIndex)
	}
	return index
}

// view gathers what refers to a volume, and says in words where it stands.
func view(s *state.Snap, w *state.Watch, v *volume.Volume) *wire.VolumeView {
	out := &wire.VolumeView{Volume: v, OnNodes: map[ids.Node]volume.InventoryEntry{}, Plugin: pluginView(s, w, v.Spec.Plugin)}
	for c := range s.ClaimsByVolume(w, v.ID) {
		out.Claims = append(out.Claims, c)
		if a := s.Alloc(w, c.Alloc); a != nil {
			out.Allocs = append(out.Allocs, a)
		}
	}
	for a := range s.AttachmentsByVolume(w, v.ID) {
		out.Attachments = append(out.Attachments, a)
	}
	for i := range s.InventoryByVolume(w, v.ID) {
		out.OnNodes[i.Node] = i.Entry
	}
	out.Unschedulable = unschedulable(v, out.Plugin)
	out.Schedulable = out.Unschedulable == ""
	story := volume.Story{Volume: v, Claims: out.Claims, Attachments: out.Attachments, OnNodes: out.OnNodes, Unschedulable: out.Unschedulable, Ending: map[ids.Alloc]bool{}}
	for _, a := range out.Allocs {
		story.Ending[a.ID] = a.Terminal()
	}
	out.State = volume.Describe(story)
	return out
}

func unschedulable(v *volume.Volume, p *wire.PluginView) string {
	switch {
	case v.Status.Phase != volume.PhaseReady && v.Status.Phase != volume.PhaseExpanding:
		return "no allocation can be given the volume while it is " + string(v.Status.Phase)
	case p == nil || p.NodesHealthy == 0:
		return `no node runs a healthy instance of plugin "` + string(v.Spec.Plugin) + `"`
	case p.ControllerRequired && p.ControllersHealthy == 0:
		return `no controller of plugin "` + string(v.Spec.Plugin) + `" is healthy`
	}
	return ""
}

func (k *Keeper) list(ctx context.Context, r *wire.VolumeListRequest) (*wire.VolumeListReply, error) {
	out := &wire.VolumeListReply{}
	err := state.Block(ctx, k.cfg.Store, r.MinIndex, r.Wait, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Volumes = nil
		for v := range s.Volumes(w, r.Namespace, r.Prefix) {
			if r.Plugin != "" && v.Spec.Plugin != r.Plugin || r.Node != "" && !onNode(s, w, v, r.Node) {
				continue
			}
			out.Volumes = append(out.Volumes, view(s, w, v))
		}
		out.Meta = wire.Meta{KnownLeader: true, Index: max(s.TableIndex(state.Volumes), s.TableIndex(state.Claims))}
		return out.Index, nil
	})
	return out, err
}

func onNode(s *state.Snap, w *state.Watch, v *volume.Volume, id ids.Node) bool {
	for c := range s.ClaimsByVolume(w, v.ID) {
		if c.Node == id {
			return true
		}
	}
	for i := range s.InventoryByVolume(w, v.ID) {
		if i.Node == id {
			return true
		}
	}
	return false
}

// external asks a provider for what it has. Node-scoped plugins answer each for its node: the union is returned, and
// nodes that could not be asked make the list incomplete, never an object absent.
func (k *Keeper) external(ctx context.Context, r *wire.ExternalListRequest) (*wire.ExternalListReply, error) {
	out := &wire.ExternalListReply{}
	next, incomplete, err := k.ask(r.Plugin, r.NextToken, func(n ids.Node, c wire.Conn, token string) (string, error) {
		page, err := wire.RunListVolumes.Call(ctx, c, &wire.RunPluginRequest{Node: n, Plugin: r.Plugin, PerPage: r.PerPage, NextToken: token})
		if err != nil {
			return "", err
		}
		out.Volumes = append(out.Volumes, page.Volumes...)
		return page.NextToken, nil
	})
	out.NextToken, out.Incomplete = next, incomplete
	return out, err
}

// ask puts a listing question to a plugin: to one controller for cluster scope, to all for node scope. The token of the
// latter carries the node that goes on.
func (k *Keeper) ask(id ids.Plugin, token string, page func(ids.Node, wire.Conn, string) (string, error)) (next string, incomplete []string, err error) {
	s := k.cfg.Store.Snapshot()
	rec := s.Plugin(nil, id)
	if rec == nil {
		return "", nil, fault.New(fault.NotFound, "list", `plugin "`+string(id)+`"`, "plugin not found")
	}
	executor, why := claims.Executor(s, k.cfg.Dispatch, id, "")
	if executor == "" {
		return "", nil, fault.New(fault.NotReady, "list", `plugin "`+string(id)+`"`, why)
	}
	nodes := []ids.Node{executor}
	if rec.Scope == plugin.ScopeNode {
		nodes = controllerNodes(s, id)
	}
	from, inner, resumed := strings.Cut(token, "/")
	if rec.Scope != plugin.ScopeNode {
		inner, resumed = token, false
	}
	for _, n := range nodes {
		if resumed && string(n) < from {
			continue
		}
		tok := ""
		if !resumed && rec.Scope != plugin.ScopeNode || resumed && string(n) == from {
			tok = inner
		}
		conn, err := k.cfg.NodeConn(n)
		if err == nil {
			next, err = page(n, conn, tok)
		}
		switch {
		case err != nil && rec.Scope == plugin.ScopeNode && fault.Has(err, fault.Unavailable):
			incomplete = append(incomplete, string(n))
		case err != nil:
			return "", incomplete, err
		case next != "" && rec.Scope == plugin.ScopeNode:
			return string(n) + "/" + next, incomplete, nil
		}
	}
	return next, incomplete, nil
}

func controllerNodes(s *state.Snap, id ids.Plugin) []ids.Node {
	var out []ids.Node
	for n := range s.Nodes(nil, "") {
		if slices.ContainsFunc(n.CSI, func(i *plugin.Instance) bool { return i.Plugin == id && i.Role == plugin.RoleController }) {
			out = append(out, n.ID)
		}
	}
	return out
}

func (k *Keeper) pluginGet(ctx context.Context, r *wire.PluginRef) (*wire.PluginReply, error) {
	out := &wire.PluginReply{}
	err := state.Block(ctx, k.cfg.Store, r.MinIndex, r.Wait, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Plugin = pluginView(s, w, r.Plugin)
		out.Meta = wire.Meta{KnownLeader: true, Index: max(s.TableIndex(state.Plugins), s.TableIndex(state.Nodes))}
		return out.Index, nil
	})
	return out, err
}

func (k *Keeper) pluginList(ctx context.Context, r *wire.Query) (*wire.PluginListReply, error) {
	out := &wire.PluginListReply{}
	err := state.Block(ctx, k.cfg.Store, r.MinIndex, r.Wait, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Plugins = nil
		for _, id := range pluginIDs(s, w) {
			if strings.HasPrefix(string(id), r.Prefix) {
				out.Plugins = append(out.Plugins, pluginView(s, w, id))
			}
		}
		out.Meta = wire.Meta{KnownLeader: true, Index: max(s.TableIndex(state.Plugins), s.TableIndex(state.Nodes))}
		return out.Index, nil
	})
	return out, err
}

// pluginIDs are those with a living instance, a volume, or a job that is asked to run them: a plugin is derived, never
// counted.
func pluginIDs(s *state.Snap, w *state.Watch) []ids.Plugin {
	set := map[ids.Plugin]bool{}
	for n := range s.Nodes(w, "") {
		for _, i := range n.CSI {
			set[i.Plugin] = true
		}
	}
	for v := range s.Volumes(w, wire.AllNamespaces, "") {
		set[v.Spec.Plugin] = true
	}
	for p := range pluginTasks(s, w) {
		set[p] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// pluginTasks finds what living jobs run as plugins.
func pluginTasks(s *state.Snap, w *state.Watch) map[ids.Plugin][]pluginTask {
	out := map[ids.Plugin][]pluginTask{}
	for j := range s.Jobs(w, wire.AllNamespaces, "") {
		if j.Stop {
			continue
		}
		for _, g := range j.TaskGroups {
			for _, t := range g.Tasks {
				if t.CSIPluginConfig != nil {
					id := ids.Plugin(t.CSIPluginConfig.ID)
					out[id] = append(out[id], pluginTask{job: j, group: g, cfg: t.CSIPluginConfig})
				}
			}
		}
	}
	return out
}

type pluginTask struct {
	job   *job.Job
	group *job.TaskGroup
	cfg   *job.CSIPluginConfig
}

// expected is how many instances of a job's group should run.
func (p pluginTask) expected(s *state.Snap, w *state.Watch) int {
	n := 0
	for a := range s.AllocsByJob(w, p.job.Namespace, p.job.ID) {
		if a.TaskGroup == p.group.Name && !a.Terminal() {
			n++
		}
	}
	if p.job.Type != job.TypeSystem {
		n = max(n, p.group.Count)
	}
	return n
}

func pluginView(s *state.Snap, w *state.Watch, id ids.Plugin) *wire.PluginView {
	out := &wire.PluginView{Record: s.Plugin(w, id)}
	known := out.Record != nil
	for n := range s.Nodes(w, "") {
		for _, i := range n.CSI {
			if i.Plugin == id {
				known = true
				addInstance(s, w, out, n, i)
			}
		}
	}
	for range s.VolumesByPlugin(w, id) {
		out.Volumes++
	}
	tasks := pluginTasks(s, w)[id]
	for _, t := range tasks {
		want := t.expected(s, w)
		if t.cfg.Type != job.PluginNode {
			out.ControllersExpected += want
		}
		if t.cfg.Type != job.PluginController {
			out.NodesExpected += want
		}
	}
	if !known && out.Volumes == 0 && len(tasks) == 0 {
		return nil
	}
	if out.Record == nil {
		out.Record = &plugin.Record{ID: id}
	}
	out.ControllerRequired = out.Record.Controller.ControllerService
	return out
}

func addInstance(s *state.Snap, w *state.Watch, out *wire.PluginView, n *node.Node, i *plugin.Instance) {
	out.Instances = append(out.Instances, i)
	if a := s.Alloc(w, i.Alloc); a != nil && !slices.Contains(out.Allocs, a) {
		out.Allocs = append(out.Allocs, a)
	}
	if !i.Healthy() || n.Status != node.StatusReady {
		return
	}
	if i.Role == plugin.RoleController {
		out.ControllersHealthy++
	} else {
		out.NodesHealthy++
	}
}
