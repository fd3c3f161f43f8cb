package views

import (
	"maps"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/instances"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// PluginIDs are those with a living instance, a volume, or a job that is asked to run them: a plugin is derived, never
// counted.
func (r *Reader) PluginIDs() []ids.Plugin {
	s, w := r.snap, r.watch
	set := map[ids.Plugin]bool{}
	for n := range s.Nodes(w, "") {
		for _, i := range instances.On(s, w, n) {
			set[i.Plugin] = true
		}
		for _, o := range n.Orphans {
			for _, p := range o.Plugins {
				set[p] = true
			}
		}
	}
	for v := range s.Volumes(w, wire.AllNamespaces, "") {
		set[v.Spec.Plugin] = true
	}
	for p := range r.pluginTasks() {
		set[p] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// pluginTasks finds what living jobs run as plugins.
func (r *Reader) pluginTasks() map[ids.Plugin][]pluginTask {
	if r.tasks != nil {
		return r.tasks
	}
	out := map[ids.Plugin][]pluginTask{}
	r.tasks = out
	for j := range r.snap.Jobs(r.watch, wire.AllNamespaces, "") {
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

// Plugin shows a plugin with its instances, and how many there should be; nil when nothing is known of it.
func (r *Reader) Plugin(id ids.Plugin) *wire.PluginView {
	out, made := r.plugins[id]
	if !made {
		out = r.plugin(id)
		r.plugins[id] = out
	}
	return out
}

// PluginLine is a plugin without its instances and their allocs.
func (r *Reader) PluginLine(id ids.Plugin) *wire.PluginView {
	out, made := r.lines[id]
	if made {
		return out
	}
	if p := r.Plugin(id); p != nil {
		line := *p
		line.Instances, line.Allocs = nil, nil
		out = &line
	}
	r.lines[id] = out
	return out
}

func (r *Reader) plugin(id ids.Plugin) *wire.PluginView {
	s, w := r.snap, r.watch
	out := &wire.PluginView{Record: s.Plugin(w, id)}
	known := out.Record != nil
	for n := range s.Nodes(w, "") {
		for _, i := range instances.On(s, w, n) {
			if i.Plugin == id {
				known = true
				addInstance(s, w, out, n, i)
			}
		}
		for i := range n.Orphans {
			if o := &n.Orphans[i]; slices.Contains(o.Plugins, id) { // one whose record is lost is no instance
				known = true
				addOrphan(s, w, out, n.ID, o.Alloc)
			}
		}
	}
	for range s.VolumesByPlugin(w, id) {
		known = true // one is enough
		break
	}
	tasks := r.pluginTasks()[id]
	for _, t := range tasks {
		want := t.expected(s, w)
		if t.cfg.Type != job.PluginNode {
			out.ControllersExpected += want
		}
		if t.cfg.Type != job.PluginController {
			out.NodesExpected += want
		}
	}
	if !known && len(tasks) == 0 {
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
	addOrphan(s, w, out, n.ID, i.Alloc)
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

// addOrphan notes an alloc of the plugin about which nobody decides.
func addOrphan(s *state.Snap, w *state.Watch, out *wire.PluginView, on ids.Node, id ids.Alloc) {
	text := Orphaned(s, w, on, id)
	if text == "" {
		return
	}
	if out.Orphans == nil {
		out.Orphans = map[ids.Alloc]string{}
	}
	out.Orphans[id] = text
}
