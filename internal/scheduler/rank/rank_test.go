package rank

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

func group(cpu int, ports ...job.Port) *job.TaskGroup {
	g := &job.TaskGroup{
		Name:  "g",
		Count: 4,
		Tasks: []*job.Task{{Name: "t", Resources: &job.Resources{CPU: cpu, MemoryMB: 10}}},
	}
	n := &job.NetworkResource{}
	for _, p := range ports {
		if p.Value > 0 {
			n.ReservedPorts = append(n.ReservedPorts, p)
		} else {
			n.DynamicPorts = append(n.DynamicPorts, p)
		}
	}
	g.Networks = []*job.NetworkResource{n}
	return g
}

func capacity(n *node.Node, allocs ...*alloc.Alloc) *Capacity {
	return NewCapacity(n, allocs, func(ids.Alloc) bool { return false }, nil)
}

func small() *node.Node {
	return &node.Node{ID: "n", Resources: node.Resources{
		CPUShares:      1000,
		MemoryMB:       1000,
		IP:             "10.0.0.1",
		MinDynamicPort: 100,
		MaxDynamicPort: 103,
	},
		Reserved: node.Resources{CPUShares: 100, ReservedPorts: []int{101}}}
}

func TestWhatIsHeldBackIsNotGivenAway(t *testing.T) {
	r := capacity(small())
	if got := r.Fits(NewAsk(&job.Job{}, group(901)), false); got != DimensionCPU {
		t.Errorf("901 of 900 MHz: %q", got)
	}
	if got := r.Fits(NewAsk(&job.Job{}, group(900)), false); got != "" {
		t.Errorf("900 of 900 MHz: %q", got)
	}
	if got := r.Fits(NewAsk(&job.Job{}, group(1, job.Port{Label: "web", Value: 101})),
		false); got != "network: port collision web" {
		t.Errorf("a port that the node keeps: %q", got)
	}
}

func TestDynamicPortsAreChosenByIDUntilThereAreNone(t *testing.T) {
	ask := NewAsk(&job.Job{},
		group(1, job.Port{Label: "a"}, job.Port{Label: "b", To: -1}, job.Port{Label: "c", To: 80}))
	r := capacity(small())
	if got := r.Fits(ask, false); got != "" {
		t.Fatalf("three of three ports: %q", got)
	}
	first := r.Ports(ask, "alloc-1")
	if again := r.Ports(ask, "alloc-1"); !slices.Equal(first, again) {
		t.Errorf("%v, then %v", first, again)
	}
	seen := map[int]bool{}
	for _, p := range first {
		if p.Value < 100 || p.Value > 103 || p.Value == 101 || seen[p.Value] || p.HostIP != "10.0.0.1" {
			t.Errorf("port %+v of %v", p, first)
		}
		seen[p.Value] = true
	}
	if first[0].To != 0 || first[1].To != first[1].Value || first[2].To != 80 {
		t.Errorf("targets: %v", first)
	}
	r.Put(ask, r.Choose(ask, "alloc-1"), "g", "alloc-1")
	one := NewAsk(&job.Job{}, group(1, job.Port{Label: "d"}))
	if got := r.Fits(one, false); got != "network: no dynamic port left" {
		t.Errorf("a fourth port: %q", got)
	}
}

func TestAnEndingAllocKeepsItsPortsUntilItsProcessesAreGone(t *testing.T) {
	old := &alloc.Alloc{ID: "old", DesiredStatus: alloc.DesiredStop, ClientStatus: alloc.ClientRunning,
		Resources: alloc.Resources{
			Tasks: map[string]alloc.TaskResources{"t": {CPUShares: 900}},
			Ports: []alloc.PortMapping{{Label: "web", Value: 80}},
		}}
	ask := NewAsk(&job.Job{}, group(900, job.Port{Label: "web", Value: 80}))
	if got := capacity(small(), old).Fits(ask, false); got != "network: port collision web" {
		t.Errorf("while it ends: %q", got)
	}
	if got := capacity(small(), old).Fits(ask, true); got != "" {
		t.Errorf("as if it had ended: %q", got)
	}
	live := *old
	live.DesiredStatus = alloc.DesiredRun
	r := capacity(small(), &live)
	if got := r.Fits(ask, true); got != DimensionCPU {
		t.Errorf("beside one that stays: %q", got)
	}
	r.Release(&live)
	if got, sure := r.Fits(ask, true), r.Fits(ask, false); got != "" || sure == "" {
		t.Errorf("once the plan stops it: %q, %q", got, sure)
	}
	r.Restore(&live)
	if got := r.Fits(ask, true); got != DimensionCPU {
		t.Errorf("when the plan does not stop it after all: %q", got)
	}
	gone := *old
	gone.ClientStatus = alloc.ClientComplete
	if got := capacity(small(), &gone).Fits(ask, false); got != "" {
		t.Errorf("after its end: %q", got)
	}
}

// TestTheQueueYieldsTheBest compares the queue, which puts off looking at scores, with looking at all of them.
func TestTheQueueYieldsTheBest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := group(10)
		j := &job.Job{}
		for range rapid.IntRange(0, 2).Draw(rt, "spreads") {
			s := &job.Spread{
				Attribute: rapid.SampledFrom([]string{"${meta.a}", "${meta.b}", "${node.unique.id}"}).Draw(rt,
					"attribute"),
				Weight: 50,
			}
			if rapid.Bool().Draw(rt, "targets") {
				s.SpreadTarget = []*job.SpreadTarget{{Value: "0", Percent: 75}, {Value: "1", Percent: 25}}
			}
			j.Spreads = append(j.Spreads, s)
		}
		ask := NewAsk(&job.Job{}, g)
		s, spread := NewScorer(j, g, ask), NewSpread(j, g)
		q := NewQueue(s, spread)
		var all []*Candidate
		for i := range rapid.IntRange(1, 12).Draw(rt, "nodes") {
			n := &node.Node{
				ID:        ids.Node(fmt.Sprint(i)),
				Meta:      map[string]string{"a": fmt.Sprint(i % 2), "b": fmt.Sprint(i % 3)},
				Resources: node.Resources{CPUShares: int64(rapid.IntRange(100, 1000).Draw(rt, "cpu")), MemoryMB: 1000},
			}
			c := q.New(capacity(n), float64(rapid.IntRange(-2, 2).Draw(rt, "affinity"))/2)
			all = append(all, c)
			q.Return(c)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "placements") {
			best := math.Inf(-1)
			for _, c := range all {
				if c.slot >= 0 {
					best = max(best, s.Local(c.Capacity, c.Fixed)+s.Share(spread.Score(c.Capacity.Node)))
				}
			}
			c := q.Pop()
			if c == nil {
				break
			}
			got := s.Local(c.Capacity, c.Fixed) + s.Share(spread.Score(c.Capacity.Node))
			if math.Abs(got-best) > 1e-9 {
				rt.Fatalf("the queue yields %v, the best is %v", got, best)
			}
			switch rapid.IntRange(0, 3).Draw(rt, "then") {
			case 0: // dropped
			case 1:
				q.Return(c)
				q.Remove(all[rapid.IntRange(0, len(all)-1).Draw(rt, "removed")])
			default:
				c.Capacity.Put(ask, c.Capacity.Choose(ask, "x"), "g", "x")
				spread.Count(c.Capacity.Node)
				q.Return(c)
			}
		}
	})
}

func TestAnAffinityWeighsBothWays(t *testing.T) {
	g := group(1)
	g.Affinities = []*job.Affinity{{LTarget: "${meta.disk}", RTarget: "ssd", Weight: 100},
		{LTarget: "${meta.old}", Operand: "is_set", Weight: -100}}
	s := NewScorer(&job.Job{}, g, NewAsk(&job.Job{}, g))
	for meta, want := range map[string]float64{"ssd": 0.5, "hdd": 0, "old": -0.5} {
		n := &node.Node{Meta: map[string]string{"disk": meta}}
		if meta == "old" {
			n.Meta = map[string]string{"old": "yes"}
		}
		if got := s.Fixed(n); got != want {
			t.Errorf("%s: %v, want %v", meta, got, want)
		}
	}
}

// The planner holds each dimension: what one plan took, the next does not get.
func TestWhatAPlanTookIsGone(t *testing.T) {
	n := small()
	n.Resources.DiskMB = 1000
	give := func(id ids.Alloc, cpu, memory, disk int64, port int) *alloc.Alloc {
		return &alloc.Alloc{ID: id, Resources: alloc.Resources{
			Tasks:  map[string]alloc.TaskResources{"t": {CPUShares: cpu, MemoryMB: memory}},
			DiskMB: disk,
			Ports:  []alloc.PortMapping{{Label: "p", Value: port}},
		}}
	}
	for want, second := range map[string]*alloc.Alloc{
		DimensionCPU:        give("b", 500, 1, 1, 2),
		DimensionMemory:     give("b", 1, 500, 1, 2),
		DimensionDisk:       give("b", 1, 1, 500, 2),
		portCollision + "p": give("b", 1, 1, 1, 1),
		"":                  give("b", 100, 100, 100, 2),
	} {
		r := capacity(n)
		if got := r.PutAlloc(give("a", 600, 600, 600, 1)); got != "" {
			t.Fatalf("the first: %q", got)
		}
		if got := r.PutAlloc(second); got != want {
			t.Errorf("the second: %q, want %q", got, want)
		}
	}
}

// Ports outside the dynamic ones take nothing of them, and an alloc's own static port is not given to it twice.
func TestFewDynamicPortsAreCountedAndGivenOnce(t *testing.T) {
	var others []alloc.PortMapping
	for i := range 50 {
		others = append(others, alloc.PortMapping{Label: "x", Value: 1000 + i})
	}
	r := capacity(small(), &alloc.Alloc{ID: "other", Resources: alloc.Resources{Ports: others}})
	ask := NewAsk(&job.Job{},
		group(10, job.Port{Label: "fixed", Value: 100}, job.Port{Label: "a"}, job.Port{Label: "b"}))
	if got := r.Fits(ask, false); got != "" {
		t.Fatalf("three of four are free: %q", got)
	}
	for i := range 50 {
		values := map[int]bool{}
		for _, p := range r.Ports(ask, ids.Alloc(fmt.Sprint("alloc ", i))) {
			if values[p.Value] || p.Value < 100 || p.Value > 103 || p.Value == 101 {
				t.Errorf("port %d is given to %q", p.Value, p.Label)
			}
			values[p.Value] = true
		}
	}
}

// Given a node with two addresses, then a port is there once on each; what the node keeps is kept on all, and what a
// host network keeps on that alone. A host network on the default address, or on the loopback, is one with the default.
func TestAPortIsThereOnceOnEachAddress(t *testing.T) {
	n := small()
	n.Resources.HostNetworks = []node.HostNetwork{
		{Name: "lan", Address: "10.9.0.1", ReservedPorts: []int{103}},
		{Name: "local", Address: "127.0.0.1"},
		{Name: "same", Address: "10.0.0.1"},
	}
	on := func(network string, value int) job.Port {
		return job.Port{Label: "web", Value: value, HostNetwork: network}
	}
	held := &alloc.Alloc{ID: "a", Job: "j", Resources: alloc.Resources{Ports: []alloc.PortMapping{
		{Label: "x", Value: 100, HostIP: "10.0.0.1"},
	}}}
	r := capacity(n, held)
	const collision = "network: port collision web"
	for _, c := range []struct {
		port job.Port
		want string
	}{
		{on("", 100), collision}, {on("lan", 100), ""}, {on("local", 100), collision}, {on("same", 100), collision},
		{on("lan", 101), collision}, {on("lan", 103), collision}, {on("", 103), ""},
	} {
		if got := r.Fits(NewAsk(&job.Job{}, group(1, c.port)), false); got != c.want {
			t.Errorf("port %d of %q: %q", c.port.Value, c.port.HostNetwork, got)
		}
	}
	ask := NewAsk(&job.Job{}, group(1, on("lan", 100), job.Port{Label: "any", HostNetwork: "lan", To: -1}))
	got := r.Ports(ask, "b")
	if len(got) != 2 || got[0].HostIP != "10.9.0.1" || got[0].HostNetwork != "lan" || got[1].HostIP != "10.9.0.1" ||
		got[1].Value != 102 || got[1].To != 102 {
		t.Errorf("it gets %+v", got)
	}
	b := &alloc.Alloc{ID: "b", Resources: alloc.Resources{Ports: got}}
	if why := r.PutAlloc(b); why != "" {
		t.Errorf("the planner refuses it: %s", why)
	}
	if why := r.PutAlloc(b); why != "network: port collision web" {
		t.Errorf("the planner takes it twice: %q", why)
	}
}

// Given a port that an alloc has and shares, then another one of the same job has it, too, whether of a plan or of what
// is stored, if it says so itself; nobody else has it, and who wants it alone waits for all who share it.
func TestAPortIsSharedWithinAJobThatSaysSo(t *testing.T) {
	const collision = "network: port collision web"
	shared := job.Port{Label: "web", Value: 100, IgnoreCollision: true}
	alone := job.Port{Label: "web", Value: 100}
	ours := &job.Job{ID: "ours", Namespace: "default"}
	held := func(id ids.Alloc, share bool) *alloc.Alloc {
		return &alloc.Alloc{ID: id, Job: ours.ID, Namespace: ours.Namespace, Resources: alloc.Resources{
			Ports: []alloc.PortMapping{{Label: "web", Value: 100, IgnoreCollision: share}},
		}}
	}
	for name, c := range map[string]struct {
		held *alloc.Alloc
		by   *job.Job
		port job.Port
		want string
	}{
		"both say so":        {held("a", true), ours, shared, ""},
		"the other one not":  {held("a", false), ours, shared, collision},
		"it does not itself": {held("a", true), ours, alone, collision},
		"another job":        {held("a", true), &job.Job{ID: "theirs", Namespace: "default"}, shared, collision},
		"another namespace":  {held("a", true), &job.Job{ID: "ours", Namespace: "other"}, shared, collision},
		"kept back by the node": {held("a", true), ours,
			job.Port{Label: "web", Value: 101, IgnoreCollision: true}, collision},
	} {
		if got := capacity(small(), c.held).Fits(NewAsk(c.by, group(1, c.port)), false); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	r := capacity(small(), held("a", true))
	ask := NewAsk(ours, group(1, shared))
	ports := r.Ports(ask, "b")
	r.Put(ask, alloc.Resources{Ports: ports}, "g", "b")
	if got := r.Fits(ask, false); got != "" || len(ports) != 1 || !ports[0].IgnoreCollision {
		t.Errorf("beside one of the plan: %q, %+v", got, ports)
	}
	r.Release(held("a", true))
	if got := r.Fits(NewAsk(ours, group(1, alone)), true); got != collision {
		t.Errorf("one of two who share it ends, and the port counts as free: %q", got)
	}
	why := r.Shortage(NewAsk(ours, group(1, alone)), false)
	if why.Reason != "port 100 (web) is held by alloc a of job \"ours\", which is being stopped" {
		t.Errorf("it is said of it: %+v", why)
	}
	stored := capacity(small(), held("a", true))
	if why := stored.PutAlloc(held("b", true)); why != "" {
		t.Errorf("the planner refuses it: %s", why)
	}
	if why := stored.PutAlloc(held("c", false)); why != collision {
		t.Errorf("the planner gives a shared port to one that does not share it: %q", why)
	}
}
