package scheduler

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/node"
)

// walked takes every node of a walk.
func walked(v Nodes, w *world, seed string) (out []ids.Node) {
	walk := newCandidates(v, w.jobs["j"], seed).walk()
	for n := walk.take(); n != nil; n = walk.take() {
		out = append(out, n.ID)
	}
	return out
}

// Whatever the nodes and the seed are, a walk yields each candidate once, and nothing else; those are the nodes that
// has says yes to.
func TestAWalkYieldsEachCandidateOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		j := testJob("j", 1)
		j.NodePool = rapid.SampledFrom([]string{"", "all", "gpu"}).Draw(t, "pool")
		j.Datacenters = rapid.SampledFrom([][]string{{"*"}, {"dc1"}, {"dc2", "x"}}).Draw(t, "datacenters")
		w.register(j)
		for range rapid.IntRange(0, 80).Draw(t, "nodes") {
			n := testNode(fmt.Sprintf("%08x", rapid.Uint32().Draw(t, "id")))
			n.NodePool = rapid.SampledFrom([]string{"", "gpu"}).Draw(t, "in")
			n.Datacenter = rapid.SampledFrom([]string{"dc1", "dc2", "dc3"}).Draw(t, "at")
			if rapid.IntRange(0, 4).Draw(t, "down") == 0 {
				n.Status = node.StatusDown
			}
			w.putNode(n)
		}
		c := newCandidates(w, j, "seed")
		var want []ids.Node
		for _, n := range w.Nodes() {
			in := n.Ready() && (j.NodePool == "all" || n.NodePool == j.NodePool) &&
				(j.Datacenters[0] == "*" || slices.Contains(j.Datacenters, n.Datacenter))
			if c.has(n) != in {
				t.Fatalf("%s is a candidate: %v", n.ID, c.has(n))
			}
			if in {
				want = append(want, n.ID)
			}
		}
		got := walked(w, w, rapid.String().Draw(t, "seed"))
		if slices.Sort(got); !slices.Equal(got, want) || c.total != len(want) {
			t.Fatalf("yielded %v of %d, want %v", got, c.total, want)
		}
		if reasons := c.reasons(1000); len(reasons)+len(want) != len(w.Nodes()) {
			t.Fatalf("%d reasons, %d candidates, %d nodes", len(reasons), len(want), len(w.Nodes()))
		}
	})
}

// Whoever looks at some nodes sees each datacenter by its size, and another evaluation sees others.
func TestAWalkTakesFromEachGroupByItsSize(t *testing.T) {
	w := newWorld()
	for i := range 4000 {
		n := testNode(ids.New())
		if i%4 == 0 {
			n.Datacenter = "dc2"
		}
		w.putNode(n)
	}
	w.register(testJob("j", 1))
	first := walked(w, w, "a")[:minSample]
	small := 0
	for _, id := range first {
		if w.nodes[id].Datacenter == "dc2" {
			small++
		}
	}
	if small != minSample/4 {
		t.Errorf("%d of %d are of the datacenter that has a quarter", small, minSample)
	}
	seen := map[ids.Node]int{}
	for i := range 100 {
		seen[walked(w, w, fmt.Sprint("eval ", i))[0]]++
	}
	if len(seen) < 60 {
		t.Errorf("100 evaluations begin at %d nodes", len(seen))
	}
}

// counting counts the nodes that are read.
type counting struct {
	*world
	read int
}

func (c *counting) Of(g node.Group, from ids.Node) iter.Seq[*node.Node] {
	return func(yield func(*node.Node) bool) {
		for n := range c.world.Of(g, from) {
			if c.read++; !yield(n) {
				return
			}
		}
	}
}

// What one placement costs does not grow with the cluster: so many nodes are read, however many there are.
func TestOnePlacementReadsAFewNodes(t *testing.T) {
	for _, nodes := range []int{100, 1000, 4000} {
		w := newWorld()
		for range nodes {
			w.putNode(testNode(ids.New()))
		}
		w.register(testJob("j", 1))
		e := w.newEval("j", eval.TriggerJobRegister)
		c := &counting{world: w}
		p, _ := Schedule(View{Jobs: w, Nodes: c, Volumes: w}, e, w.now)
		if len(p.Place) != 1 || c.read > 2*minSample {
			t.Errorf("%d nodes: %d placed, %d nodes read", nodes, len(p.Place), c.read)
		}
	}
}
