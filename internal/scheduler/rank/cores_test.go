package rank

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/cores"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// fourCores is a node of two memory nodes with two cores each.
func fourCores(kept ...uint16) *node.Node {
	n := &node.Node{ID: "n", Resources: node.Resources{CPUShares: 4000, MemoryMB: 1000, IP: "10.0.0.1"},
		Reserved: node.Resources{Kept: kept}}
	for id := range uint16(4) {
		n.Resources.Cores = append(n.Resources.Cores, cores.Core{ID: id, Memory: int(id / 2), BaseMHz: 1000})
	}
	n.Reserved.CPUShares = cores.Shares(n.Resources.Cores, kept, 4000)
	return n
}

func whole(n int, affinity string) *job.TaskGroup {
	g := group(0)
	g.Tasks[0].Resources.Cores = n
	if affinity != "" {
		g.Tasks[0].Resources.NUMA = &job.NUMAResource{Affinity: affinity}
	}
	return g
}

func given(tasks map[string]alloc.TaskResources) *alloc.Alloc {
	return &alloc.Alloc{ID: "a", ClientStatus: alloc.ClientRunning, DesiredStatus: alloc.DesiredRun,
		Resources: alloc.Resources{Tasks: tasks}}
}

func TestCoresStandForTheirPartOfTheNodeAndNobodyElseGetsThem(t *testing.T) {
	r := capacity(fourCores())
	ask := NewAsk(&job.Job{}, whole(2, ""))
	if got := r.Fits(ask, false); got != "" {
		t.Fatalf("two of four cores: %q", got)
	}
	first := r.Choose(ask, "x")
	if got := first.Tasks["t"]; !slices.Equal(got.Cores, []uint16{0, 1}) || got.CPUShares != 2000 {
		t.Errorf("the first alloc gets %+v", got)
	}
	r.Put(ask, first, "g", "first")
	second := r.Choose(ask, "x")
	if got := second.Tasks["t"]; !slices.Equal(got.Cores, []uint16{2, 3}) {
		t.Errorf("the second alloc gets %+v", got)
	}
	r.Put(ask, second, "g", "second")
	if got := r.Fits(NewAsk(&job.Job{}, whole(1, "")), false); got != DimensionCores {
		t.Errorf("a fifth core: %q", got)
	}
	if got := r.Fits(NewAsk(&job.Job{}, group(1)), false); got != DimensionCores {
		t.Errorf("a task that shares, where nothing is shared: %q", got)
	}
	r.Release(&alloc.Alloc{ID: "first", TaskGroup: "g", Resources: first})
	if got := r.Fits(NewAsk(&job.Job{}, whole(2, "")), false); got != "" {
		t.Errorf("two cores that were given back: %q", got)
	}
}

func TestTasksThatShareKeepOneCore(t *testing.T) {
	r := capacity(fourCores(), given(map[string]alloc.TaskResources{"t": {CPUShares: 10}}))
	if got := r.Fits(NewAsk(&job.Job{}, whole(4, "")), false); got != DimensionCores {
		t.Errorf("all cores beside a task that shares: %q", got)
	}
	all := NewAsk(&job.Job{}, whole(4, ""))
	if got := r.Shortage(all, false).Reason; !strings.Contains(got, "the tasks that share the rest") {
		t.Errorf("the reason is %q", got)
	}
	if got := r.Fits(NewAsk(&job.Job{}, whole(3, "")), false); got != "" {
		t.Errorf("all but one: %q", got)
	}
	both := whole(4, "")
	both.Tasks = append(both.Tasks, &job.Task{Name: "side", Resources: &job.Resources{CPU: 1}})
	if got := capacity(fourCores()).Fits(NewAsk(&job.Job{}, both), false); got != DimensionCores {
		t.Errorf("all cores and one task more: %q", got)
	}
}

func TestCoresThatAreKeptBackOrOfAnotherMemoryNodeAreNotGiven(t *testing.T) {
	r := capacity(fourCores(0))
	ask := NewAsk(&job.Job{}, whole(2, cores.AffinityRequire))
	if got := r.Choose(ask, "x").Tasks["t"].Cores; !slices.Equal(got, []uint16{2, 3}) {
		t.Errorf("it gets %v", got)
	}
	r = capacity(fourCores(0, 2))
	if got := r.Fits(ask, false); got != DimensionCores {
		t.Errorf("two cores of one memory node where each has one: %q", got)
	}
	if got := r.Shortage(ask, false).Reason; got != "cores: asks 2 cores of one memory node, 2 of 2 free" &&
		!strings.HasPrefix(got, "cores: asks 2 cores of one memory node, 2 of 2 free") {
		t.Errorf("the reason is %q", got)
	}
	if s := capacity(small()).Shortage(ask, false); s.Reason != "cores: the node gives no whole cores away" {
		t.Errorf("a node that tells of no cores: %q", s.Reason)
	}
}

// The planner refuses what two schedulers gave twice, and cores that the node does not have.
func TestACoreThatIsHeldIsRefusedByThePlanner(t *testing.T) {
	r := capacity(fourCores(3), given(map[string]alloc.TaskResources{"t": {CPUShares: 1000, Cores: []uint16{1}}}))
	for name, c := range map[string]struct {
		cores []uint16
		want  string
	}{
		"held":         {[]uint16{0, 1}, DimensionCores},
		"kept back":    {[]uint16{3}, DimensionCores},
		"not there":    {[]uint16{9}, DimensionCores},
		"twice in one": {[]uint16{0, 0}, DimensionCores},
		"free":         {[]uint16{0}, ""},
	} {
		a := given(map[string]alloc.TaskResources{"t": {CPUShares: 1000, Cores: c.cores}})
		a.ID = ids.Alloc(name)
		if got := r.PutAlloc(a); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Whatever is placed, released and restored in whatever order, no core is given twice.
func TestNoCoreIsGivenTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := capacity(fourCores())
		var placed []*alloc.Alloc
		for i := range 20 {
			if len(placed) > 0 && rapid.Bool().Draw(rt, "release") {
				at := rapid.IntRange(0, len(placed)-1).Draw(rt, "which")
				r.Release(placed[at])
				placed = slices.Delete(placed, at, at+1)
			} else {
				n := rapid.IntRange(0, 4).Draw(rt, "cores")
				g := group(1)
				if n > 0 {
					g = whole(n, rapid.SampledFrom(cores.Affinities).Draw(rt, "affinity"))
				}
				ask := NewAsk(&job.Job{}, g)
				if r.Fits(ask, false) == "" {
					a := given(r.Choose(ask, "x").Tasks)
					a.ID, a.TaskGroup = ids.Alloc(rune('a'+i)), "g"
					r.Put(ask, a.Resources, "g", a.ID)
					placed = append(placed, a)
				}
			}
			taken, sharing := map[uint16]bool{}, 0
			for _, a := range placed {
				for _, task := range a.Resources.Tasks {
					if len(task.Cores) == 0 {
						sharing++
					}
					for _, id := range task.Cores {
						if taken[id] {
							rt.Fatalf("core %d is given twice: %+v", id, placed)
						}
						taken[id] = true
					}
				}
			}
			if sharing > 0 && len(taken) == 4 {
				rt.Fatal("nothing is left for the tasks that share")
			}
		}
	})
}
