package scheduler

import (
	"berth/internal/model/alloc"
	"berth/internal/scheduler/devices"
	"berth/internal/scheduler/diff"
	"berth/internal/scheduler/filter"
)

// systemInput finds the nodes on which a group of a system job belongs. A node that a filter keeps out is no failure:
// the job is not meant for it.
func (r *run) systemInput(in diff.Input, g *groupRun) diff.SystemInput {
	req := &filter.Request{Job: r.job, Group: g.group}
	static := filter.Prepare(req, append(filter.Static(r.job.Region), &devices.Filter{})...)
	belongs := filter.Prepare(req, &filter.Pool{}, &filter.Datacenters{})
	chosen := filter.Prepare(req, filter.NewConstraints(r.job.Region))
	out := diff.SystemInput{Input: in, Keeps: func(a *alloc.Alloc) bool {
		n := r.view.Nodes.Node(a.Node)
		if n == nil {
			return false
		}
		_, outside := belongs.Check(n)
		_, unwanted := chosen.Check(n)
		// A driver that is unhealthy, or attributes that an agent has not found yet, stop nothing that runs: only a
		// person's change of the job or of the node's place does.
		return outside == "" && (unwanted == "" || a.JobVersion == r.job.Version)
	}}
	t := newTally(r.nodes)
	for n := range r.nodes.all {
		t.evaluated++
		if f, key := static.Check(n); key != "" {
			t.refuse(n, f, key)
			continue
		}
		out.Fits = append(out.Fits, n.ID)
	}
	if len(out.Fits) == 0 && g.group.Count > 0 && !lives(g) {
		r.out.Failed[g.name] = t.failure()
		r.out.Queued[g.name] = 1
	}
	return out
}

// lives reports whether any alloc of the group runs.
func lives(g *groupRun) bool {
	for _, a := range g.allocs {
		if !a.Terminal() {
			return true
		}
	}
	return false
}
