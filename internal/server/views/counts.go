package views

import (
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Counts counts what a state holds. It looks at every job, allocation and volume once.
func Counts(s *state.Snap) *wire.CountsReply {
	out := &wire.CountsReply{Claims: map[string]int{}, Evals: map[string]int{}}
	for j := range s.Jobs(nil, wire.AllNamespaces, "") {
		v, _ := JobView(s, nil, j)
		out.Jobs = append(out.Jobs, wire.JobCount{
			Namespace: j.Namespace,
			Job:       j.ID,
			Type:      j.Type,
			Status:    v.Status,
			Groups:    v.Summary,
		})
	}
	for n := range s.Nodes(nil, "") {
		out.Nodes = append(out.Nodes, nodeCount(s, n))
	}
	out.Volumes = volumeCounts(s)
	r := Of(s, nil)
	for rec := range s.Plugins(nil, "") {
		if p := r.PluginLine(rec.ID); p != nil {
			out.Plugins = append(out.Plugins, wire.PluginCount{
				ID:                  rec.ID,
				ControllersHealthy:  p.ControllersHealthy,
				ControllersExpected: p.ControllersExpected,
				NodesHealthy:        p.NodesHealthy,
				NodesExpected:       p.NodesExpected,
			})
		}
	}
	for c := range s.Claims(nil) {
		out.Claims[string(c.State)]++
	}
	for e := range s.Evals(nil, "") {
		out.Evals[e.Status]++
	}
	return out
}

// nodeCount is what a node has to give, less what is reserved, and what of it is given: to allocations that have not
// ended there.
func nodeCount(s *state.Snap, n *node.Node) wire.NodeCount {
	out := wire.NodeCount{
		ID:          n.ID,
		Name:        n.Name,
		Datacenter:  n.Datacenter,
		Class:       n.NodeClass,
		Status:      n.Status,
		Eligibility: n.SchedulingEligibility,
		Allocs:      map[string]int{},
		Orphans:     len(n.Orphans),
	}
	for a := range s.AllocsByNode(nil, n.ID) {
		out.Allocs[a.ClientStatus]++
		if a.ClientTerminal() {
			continue
		}
		cpu, mem, disk := a.Resources.Total()
		out.Given.CPUShares += cpu
		out.Given.MemoryMB += mem
		out.Given.DiskMB += disk
	}
	out.Left = wire.Amount{
		CPUShares: n.Resources.CPUShares - n.Reserved.CPUShares - out.Given.CPUShares,
		MemoryMB:  n.Resources.MemoryMB - n.Reserved.MemoryMB - out.Given.MemoryMB,
		DiskMB:    n.Resources.DiskMB - n.Reserved.DiskMB - out.Given.DiskMB,
	}
	return out
}

func volumeCounts(s *state.Snap) []wire.VolumeCount {
	type kind struct {
		plugin ids.Plugin
		phase  string
	}
	at := map[kind]int{}
	var out []wire.VolumeCount
	for v := range s.Volumes(nil, wire.AllNamespaces, "") {
		k := kind{v.Spec.Plugin, string(v.Status.Phase)}
		i, known := at[k]
		if !known {
			i = len(out)
			at[k] = i
			out = append(out, wire.VolumeCount{Plugin: k.plugin, Phase: k.phase})
		}
		out[i].Count++
		out[i].Bytes += v.Status.Capacity
	}
	return out
}
