package job

import (
	"maps"
	"slices"
)

// Within is a copy of a job without what is beyond its bounds, so that the rest can be judged at a bounded cost: lists
// are cut, and amounts are the most that there may be. Nothing of it is for running.
func (j *Job) Within() *Job {
	constraints := rest{MaxConstraints.Max}
	affinities := rest{MaxAffinities.Max}
	spreads := rest{MaxSpreads.Max}
	allocs := rest{MaxAllocs.Max}
	c := *j
	c.Datacenters = first(j.Datacenters, MaxDatacenters.Max)
	c.Constraints = first(j.Constraints, constraints.take(len(j.Constraints)))
	c.Affinities = first(j.Affinities, affinities.take(len(j.Affinities)))
	c.Spreads = narrow(&spreads, j.Spreads)
	c.TaskGroups = nil
	for _, g := range first(j.TaskGroups, MaxGroups.Max) {
		as := *g
		as.Count = allocs.take(g.Count)
		as.Constraints = first(g.Constraints, constraints.take(len(g.Constraints)))
		as.Affinities = first(g.Affinities, affinities.take(len(g.Affinities)))
		as.Spreads = narrow(&spreads, g.Spreads)
		as.cut()
		as.Tasks = nil
		for _, t := range first(g.Tasks, MaxTasks.Max) {
			one := *t
			one.Constraints = first(t.Constraints, constraints.take(len(t.Constraints)))
			one.Affinities = first(t.Affinities, affinities.take(len(t.Affinities)))
			one.cut()
			as.Tasks = append(as.Tasks, &one)
		}
		c.TaskGroups = append(c.TaskGroups, &as)
	}
	return &c
}

// rest is what is left of a bound that many share.
type rest struct{ left int }

// take is as many of n as there may still be.
func (r *rest) take(n int) int {
	n = min(n, r.left)
	r.left -= max(n, 0)
	return n
}

func first[T any](list []T, n int) []T { return list[:min(len(list), n)] }

func narrow(r *rest, spreads []*Spread) (out []*Spread) {
	for _, s := range spreads {
		if breadth([]*Spread{s}) <= r.left {
			r.take(breadth([]*Spread{s}))
			out = append(out, s)
		}
	}
	return out
}

// cut leaves in a group what is within its own bounds.
func (g *TaskGroup) cut() {
	if len(g.Volumes) > MaxVolumes.Max {
		all := g.Volumes
		g.Volumes = map[string]*VolumeRequest{}
		for _, alias := range first(slices.Sorted(maps.Keys(all)), MaxVolumes.Max) {
			g.Volumes[alias] = all[alias]
		}
	}
	left := rest{MaxPorts.Max}
	networks := g.Networks
	g.Networks = nil
	for _, n := range networks {
		as := *n
		as.ReservedPorts = first(n.ReservedPorts, left.take(len(n.ReservedPorts)))
		as.DynamicPorts = first(n.DynamicPorts, left.take(len(n.DynamicPorts)))
		g.Networks = append(g.Networks, &as)
	}
	if d := g.EphemeralDisk; d != nil {
		as := *d
		as.SizeMB = min(d.SizeMB, MaxMiB.Max)
		g.EphemeralDisk = &as
	}
}

// cut leaves a task amounts that are within their bounds.
func (t *Task) cut() {
	if r := t.Resources; r != nil {
		as := *r
		as.CPU = min(r.CPU, MaxMHz.Max)
		as.MemoryMB, as.MemoryMaxMB = min(r.MemoryMB, MaxMiB.Max), min(r.MemoryMaxMB, MaxMiB.Max)
		t.Resources = &as
	}
	if l := t.LogConfig; l != nil {
		as := *l
		as.MaxFiles, as.MaxFileSizeMB = min(l.MaxFiles, MaxLogFiles.Max), min(l.MaxFileSizeMB, MaxMiB.Max)
		t.LogConfig = &as
	}
}
