package gauges

import (
	"maps"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/wire"
)

// known are the names by which readers of metrics of this API know what is counted; ours count the same under names of
// our own. A name has one meaning in both families.
const (
	known = "nomad."
	ours  = "berth."
)

// Counted lists what the servers count, and of their nodes what this agent's own has; without one, of all.
func Counted(c *wire.CountsReply, self ids.Node) []Gauge {
	var out list
	out.jobs(c.Jobs)
	for _, n := range c.Nodes {
		if self == "" || n.ID == self {
			out.node(n)
		}
	}
	for _, v := range c.Volumes {
		l := map[string]string{"plugin": string(v.Plugin), "phase": v.Phase}
		out.add(ours+"volumes.count", v.Count, l)
		out.add(ours+"volumes.capacity_bytes", int(v.Bytes), l)
	}
	for _, p := range c.Plugins {
		for role, n := range map[string][2]int{
			"controller": {p.ControllersHealthy, p.ControllersExpected},
			"node":       {p.NodesHealthy, p.NodesExpected},
		} {
			l := map[string]string{"plugin": string(p.ID), "role": role}
			out.add(ours+"plugins.healthy", n[0], l)
			out.add(ours+"plugins.expected", n[1], l)
		}
	}
	for _, state := range []string{"queued", "held", "releasing"} {
		out.add(ours+"claims.count", c.Claims[state], map[string]string{"state": state})
	}
	for _, status := range []string{"pending", "blocked", "failed"} {
		out.add(ours+"evals.count", c.Evals[status], map[string]string{"status": status})
	}
	out.add(known+"nomad.blocked_evals.total_blocked", c.Evals["blocked"], nil)
	return out
}

type list []Gauge

func (l *list) add(name string, value int, labels map[string]string) {
	if labels == nil {
		labels = map[string]string{}
	}
	*l = append(*l, Gauge{Name: name, Value: float64(value), Labels: labels})
}

// jobs are counted by status, and their allocations by group and state.
func (l *list) jobs(all []wire.JobCount) {
	byStatus := map[string]int{"pending": 0, "running": 0, "dead": 0}
	for _, j := range all {
		byStatus[j.Status]++
		for _, name := range slices.Sorted(maps.Keys(j.Groups)) {
			g := j.Groups[name]
			labels := map[string]string{
				"namespace":  string(j.Namespace),
				"job":        string(j.Job),
				"task_group": name,
			}
			for state, n := range map[string]int{
				"queued":   g.Queued,
				"starting": g.Starting,
				"running":  g.Running,
				"complete": g.Complete,
				"failed":   g.Failed,
				"lost":     g.Lost,
				"unknown":  g.Unknown,
			} {
				l.add(known+"nomad.job_summary."+state, n, labels)
				own := maps.Clone(labels)
				own["state"] = state
				l.add(ours+"job.allocs", n, own)
			}
		}
	}
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		l.add(known+"nomad.job_status."+status, byStatus[status], nil)
		l.add(ours+"jobs.count", byStatus[status], map[string]string{"status": status})
	}
}

// node is what runs on a node, and what of it is given away.
func (l *list) node(n wire.NodeCount) {
	labels := map[string]string{
		"node_id":                     string(n.ID),
		"host":                        n.Name,
		"datacenter":                  n.Datacenter,
		"node_class":                  n.Class,
		"node_status":                 n.Status,
		"node_scheduling_eligibility": n.Eligibility,
	}
	terminal := n.Allocs["complete"] + n.Allocs["failed"] + n.Allocs["lost"]
	for state, count := range map[string]int{
		"pending":  n.Allocs["pending"],
		"running":  n.Allocs["running"],
		"terminal": terminal,
	} {
		l.add(known+"client.allocations."+state, count, labels)
		own := maps.Clone(labels)
		own["state"] = state
		l.add(ours+"client.allocs", count, own)
	}
	for what, a := range map[string]wire.Amount{"allocated": n.Given, "unallocated": n.Left} {
		for _, family := range []string{known, ours} {
			l.add(family+"client."+what+".cpu", int(a.CPUShares), labels)
			l.add(family+"client."+what+".memory", int(a.MemoryMB), labels)
			l.add(family+"client."+what+".disk", int(a.DiskMB), labels)
		}
	}
	l.add(ours+"client.orphans", n.Orphans, labels)
}
