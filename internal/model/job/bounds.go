package job

import (
	"fmt"
	"strconv"
)

// Bound is the most of something that one job may ask for.
type Bound struct {
	Max int
	Of  string // "allocs of one job"
}

// The bounds of one job. They are far beyond what is in use, and near enough that the largest job costs the servers
// seconds and tens of megabytes, not their lives. They hold at registration, and in the scheduler for what is stored
// already: a job beyond a bound keeps what it has, and nothing of it is placed.
var (
	// MaxAllocs: 20 on each of 5,000 nodes. Whole clusters of other orchestrators are tested up to 150,000. The
	// scheduler's lists for so many are about 10 MB.
	MaxAllocs = Bound{100_000, "allocs of one job"}
	// MaxGroups and MaxTasks: people write a few, generators some hundreds. All tasks of a group are processes of one
	// alloc.
	MaxGroups = Bound{1_000, "groups of one job"}
	MaxTasks  = Bound{200, "tasks of one group"}
	// MaxConstraints, MaxAffinities and MaxSpreads (with their targets) count those of the job, its groups and its
	// tasks: each is asked of every node, so that a thousand on 5,000 nodes are five million questions.
	MaxConstraints = Bound{1_000, "constraints of one job"}
	MaxAffinities  = Bound{1_000, "affinities of one job"}
	MaxSpreads     = Bound{1_000, "spreads and spread targets of one job"}
	// MaxDatacenters are patterns, asked of every node too.
	MaxDatacenters = Bound{1_000, "datacenters of one job"}
	// MaxVolumes: each is a claim and a mount of every alloc.
	MaxVolumes = Bound{200, "volumes of one group"}
	// MaxPorts: all dynamic ports of a node are 12,000.
	MaxPorts = Bound{2_000, "ports of one group"}
	// MaxMHz, MaxMiB and MaxLogFiles are more than machines have, and little enough that no sum of them overflows, nor
	// what they are in bytes: a sum that did would be less than nothing, and fit any node.
	MaxMHz      = Bound{1 << 30, "MHz of one task"}
	MaxMiB      = Bound{1 << 30, "MiB"}
	MaxLogFiles = Bound{1 << 20, "files of one task's output"}
)

// MaxPlacements is how many allocs one evaluation places; the next one goes on. It bounds the plan, which is one
// command in the replicated log and is checked while all others wait.
const MaxPlacements = 10_000

// Excess is one bound that a job passes.
type Excess struct {
	Group string // empty: it is the job's as a whole
	What  string // "count", "constraints"
	Value int
	Bound Bound
}

// Error names the place, the value and the bound.
func (e *Excess) Error() string {
	at := ""
	if e.Group != "" {
		at = "group " + strconv.Quote(e.Group) + ": "
	}
	return fmt.Sprintf("%s%s %d exceeds the bound of %d %s", at, e.What, e.Value, e.Bound.Max, e.Bound.Of)
}

// Excesses lists the bounds that a job passes. It stands a job that is not valid.
func (j *Job) Excesses() []*Excess {
	var out []*Excess
	check := func(group, what string, n int, b Bound) {
		if n > b.Max {
			out = append(out, &Excess{group, what, n, b})
		}
	}
	check("", "number of groups", len(j.TaskGroups), MaxGroups)
	check("", "number of datacenters", len(j.Datacenters), MaxDatacenters)
	allocs, beyond := 0, false
	constraints := len(j.Constraints)
	affinities := len(j.Affinities)
	spreads := breadth(j.Spreads)
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}
		check(g.Name, "count", g.Count, MaxAllocs)
		check(g.Name, "canary", g.canaries(), MaxAllocs)
		beyond = beyond || max(g.Count, g.canaries()) > MaxAllocs.Max
		for _, n := range []int{g.Count, g.canaries()} {
			allocs += min(max(n, 0), MaxAllocs.Max) // so that no sum overflows
		}
		constraints = constraints + len(g.Constraints)
		affinities = affinities + len(g.Affinities)
		spreads = spreads + breadth(g.Spreads)
		check(g.Name, "number of tasks", len(g.Tasks), MaxTasks)
		check(g.Name, "number of volumes", len(g.Volumes), MaxVolumes)
		check(g.Name, "number of ports", ports(g.Networks), MaxPorts)
		if g.EphemeralDisk != nil {
			check(g.Name, "size of ephemeral_disk", g.EphemeralDisk.SizeMB, MaxMiB)
		}
		for _, t := range g.Tasks {
			if t != nil {
				constraints, affinities = constraints+len(t.Constraints), affinities+len(t.Affinities)
				t.takes(func(what string, n int, b Bound) {
					check(g.Name, fmt.Sprintf("task %q: %s", t.Name, what), n, b)
				})
			}
		}
	}
	if !beyond {
		check("", "sum of the groups' count", allocs, MaxAllocs)
	}
	check("", "number of constraints", constraints, MaxConstraints)
	check("", "number of affinities", affinities, MaxAffinities)
	check("", "number of spreads and targets", spreads, MaxSpreads)
	return out
}

// takes reports each amount that a task asks for.
func (t *Task) takes(check func(what string, n int, b Bound)) {
	if r := t.Resources; r != nil {
		check("cpu", r.CPU, MaxMHz)
		check("memory", r.MemoryMB, MaxMiB)
		check("memory_max", r.MemoryMaxMB, MaxMiB)
	}
	if l := t.LogConfig; l != nil {
		check("max_files of logs", l.MaxFiles, MaxLogFiles)
		check("max_file_size of logs", l.MaxFileSizeMB, MaxMiB)
	}
}

func breadth(spreads []*Spread) int {
	n := len(spreads)
	for _, s := range spreads {
		if s != nil {
			n += len(s.SpreadTarget)
		}
	}
	return n
}

func ports(networks []*NetworkResource) int {
	n := 0
	for _, net := range networks {
		if net != nil {
			n += len(net.ReservedPorts) + len(net.DynamicPorts)
		}
	}
	return n
}

// KeepCounts gives the groups the counts that the present version has.
func (j *Job) KeepCounts(present *Job) {
	for _, g := range j.TaskGroups {
		if was := present.Group(g.Name); was != nil {
			g.Count = was.Count
		}
	}
}
