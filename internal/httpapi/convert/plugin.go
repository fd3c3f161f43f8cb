package convert

import (
	"maps"
	"slices"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/plugin"
	"berth/internal/wire"
)

// Plugin makes the public form of a plugin.
func Plugin(p *wire.PluginView) *api.CSIPlugin {
	if p == nil {
		return nil
	}
	out := &api.CSIPlugin{
		ID:                  string(p.Record.ID),
		Provider:            p.Record.Provider,
		Version:             p.Record.Version,
		ControllerRequired:  p.ControllerRequired,
		Controllers:         map[string]*api.CSIInfo{},
		Nodes:               map[string]*api.CSIInfo{},
		Allocations:         []*api.AllocationListStub{},
		ControllersHealthy:  p.ControllersHealthy,
		ControllersExpected: p.ControllersExpected,
		NodesHealthy:        p.NodesHealthy,
		NodesExpected:       p.NodesExpected,
		CreateIndex:         p.Record.CreateIndex,
		ModifyIndex:         p.Record.ModifyIndex,
	}
	for _, id := range slices.Sorted(maps.Keys(p.Orphans)) {
		out.Orphans = append(out.Orphans, p.Orphans[id])
	}
	for _, i := range p.Instances {
		into := out.Nodes
		if i.Role == plugin.RoleController {
			into = out.Controllers
		}
		if old := into[string(i.Node)]; old == nil || i.Healthy() {
			info := CSIInfo(i)
			if text := p.Orphans[i.Alloc]; text != "" {
				info.HealthDescription += "; " + text
			}
			into[string(i.Node)] = info
		}
	}
	out.ControllerJobs = pluginJobs(p, plugin.RoleController)
	out.NodeJobs = pluginJobs(p, plugin.RoleNode)
	for _, a := range p.Allocs {
		out.Allocations = append(out.Allocations, AllocStub(alloc.Bundle{Alloc: a}))
	}
	return out
}

// pluginJobs are the jobs whose allocs serve a role of a plugin, by namespace and id, with how many do.
func pluginJobs(p *wire.PluginView, role plugin.Role) map[string]map[string]*api.CSIPluginJob {
	out := map[string]map[string]*api.CSIPluginJob{}
	for _, a := range p.Allocs {
		serves := func(i *plugin.Instance) bool { return i.Role == role && i.Alloc == a.ID }
		if !slices.ContainsFunc(p.Instances, serves) {
			continue
		}
		ns, id := string(a.Namespace), string(a.Job)
		if out[ns] == nil {
			out[ns] = map[string]*api.CSIPluginJob{}
		}
		if out[ns][id] == nil {
			out[ns][id] = &api.CSIPluginJob{Namespace: ns, ID: id}
		}
		out[ns][id].Expected++
	}
	return out
}

// PluginStub is the line of a plugin in lists.
func PluginStub(p *wire.PluginView) *api.CSIPluginListStub {
	return &api.CSIPluginListStub{
		ID:                  string(p.Record.ID),
		Provider:            p.Record.Provider,
		ControllerRequired:  p.ControllerRequired,
		ControllersHealthy:  p.ControllersHealthy,
		ControllersExpected: p.ControllersExpected,
		NodesHealthy:        p.NodesHealthy,
		NodesExpected:       p.NodesExpected,
		CreateIndex:         p.Record.CreateIndex,
		ModifyIndex:         p.Record.ModifyIndex,
	}
}

// ToRebind is the internal form of a request that gives the volumes of a plugin another provider.
func ToRebind(body *api.CSIPluginRebindRequest, id, _ string) (*wire.PluginRebindRequest, error) {
	if body.Provider == "" {
		return nil, fault.New(fault.Invalid, "", "", "Provider must name the provider that is to have the volumes")
	}
	return &wire.PluginRebindRequest{Plugin: ids.Plugin(id), Provider: body.Provider, From: body.From}, nil
}

// Rebound is the answer to it.
func Rebound(out *wire.PluginRebindReply) (uint64, any) {
	return out.Index, &api.CSIPluginRebindResponse{From: out.From, Count: out.Count}
}
