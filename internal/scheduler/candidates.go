package scheduler

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/scheduler/filter"
	"berth/internal/scheduler/rank"
)

// maxReasons bounds how many nodes an explanation lists.
const maxReasons = 50

// candidates are the nodes that a job may run on as far as the job alone decides: ready, in its pool and datacenters.
type candidates struct {
	nodes     []*node.Node
	inPool    int
	available map[string]int // by datacenter
	reasons   []alloc.NodeReason
	start     uint64
	stride    uint64
}

// newCandidates looks at every node once. The seed decides the order in which Nth yields them, so that the placements
// of different evaluations begin at different nodes.
func newCandidates(v Nodes, j *job.Job, seed string) *candidates {
	c := &candidates{available: map[string]int{}}
	req := &filter.Request{Job: j}
	pool := &filter.Pool{}
	dcs := &filter.Datacenters{}
	ready := filter.Ready{}
	members := filter.Prepare(req, pool)
	rest := filter.Prepare(req, dcs)
	for _, n := range v.Nodes() {
		if f, key := members.Check(n); key != "" {
			c.exclude(f, n)
			continue
		}
		if key := ready.Check(n); key != "" {
			c.exclude(ready, n)
			continue
		}
		c.inPool++
		if f, key := rest.Check(n); key != "" {
			c.exclude(f, n)
			continue
		}
		c.available[n.Datacenter]++
		c.nodes = append(c.nodes, n)
	}
	c.shuffle(seed)
	return c
}

func (c *candidates) exclude(f filter.Filter, n *node.Node) {
	if len(c.reasons) >= maxReasons {
		return
	}
	reason, hint := f.Explain(n)
	c.reasons = append(c.reasons, alloc.NodeReason{Node: n.ID, Name: n.Name, Reason: reason, Hint: hint})
}

// shuffle chooses a start and a stride that is coprime with the number of nodes: every node comes once.
func (c *candidates) shuffle(seed string) {
	n := uint64(len(c.nodes))
	if n == 0 {
		return
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed)) // a hash never fails
	sum := h.Sum64()
	c.start, c.stride = sum%n, (sum>>32)%n|1
	for gcd(c.stride, n) != 1 {
		c.stride++
	}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// has reports whether a node is a candidate.
func (c *candidates) has(n *node.Node) bool {
	i, ok := slices.BinarySearchFunc(c.nodes, n.ID, func(a *node.Node, id ids.Node) int {
		return strings.Compare(string(a.ID), string(id))
	})
	return ok && c.nodes[i].ID == n.ID
}

// nth is the i-th node in the order of the seed.
func (c *candidates) nth(i int) *node.Node {
	n := uint64(len(c.nodes))
	return c.nodes[(c.start+uint64(i)*c.stride)%n]
}

// tally counts why nodes were refused.
type tally struct {
	nodes      *candidates
	evaluated  int
	filtered   int
	exhausted  int
	classOut   map[string]int
	classFull  map[string]int
	constraint map[string]int
	dimension  map[string]int
	reasons    []alloc.NodeReason
	frozen     *alloc.Metric // the counts as a metric, until they change
}

func newTally(c *candidates) *tally {
	return &tally{
		nodes:      c,
		classOut:   map[string]int{},
		classFull:  map[string]int{},
		constraint: map[string]int{},
		dimension:  map[string]int{},
	}
}

// clone copies a tally, to add what holds for one placement alone.
func (t *tally) clone() *tally {
	n := *t
	n.classOut, n.classFull = maps.Clone(t.classOut), maps.Clone(t.classFull)
	n.constraint, n.dimension = maps.Clone(t.constraint), maps.Clone(t.dimension)
	n.reasons, n.frozen = append([]alloc.NodeReason{}, t.reasons...), nil
	return &n
}

// refuse counts a node that a filter refused.
func (t *tally) refuse(n *node.Node, f filter.Filter, key string) {
	t.frozen = nil
	t.filtered++
	t.constraint[key]++
	if n.NodeClass != "" {
		t.classOut[n.NodeClass]++
	}
	if len(t.reasons) < maxReasons {
		reason, hint := f.Explain(n)
		t.reasons = append(t.reasons, alloc.NodeReason{Node: n.ID, Name: n.Name, Reason: reason, Hint: hint})
	}
}

// exhaust counts a node that has not enough left of a dimension.
func (t *tally) exhaust(n *node.Node, dimension string, why rank.Shortage) {
	t.frozen = nil
	t.exhausted++
	t.dimension[dimension]++
	if n.NodeClass != "" {
		t.classFull[n.NodeClass]++
	}
	if len(t.reasons) < maxReasons {
		t.reasons = append(t.reasons,
			alloc.NodeReason{Node: n.ID, Name: n.Name, Reason: why.Reason, Hint: why.Hint})
	}
}

// bound counts the candidates as refused because only one other node would do, which is none.
func (t *tally) bound(n *node.Node) {
	reason, hint := "the job's pool and datacenters leave it out", "change the job's node_pool or datacenters"
	if (filter.Ready{}).Check(n) != "" {
		reason, hint = (filter.Ready{}).Explain(n)
	}
	t.refuseAll(
		&filter.Refusal{
			Key:    filter.TopologyKey,
			Reason: fmt.Sprintf("only node %s would do: %s", n.Name, reason),
			Hint:   hint,
		})
}

// refuseAll counts a refusal that holds on every candidate.
func (t *tally) refuseAll(r *filter.Refusal) {
	t.frozen = nil
	t.filtered += len(t.nodes.nodes)
	t.constraint[r.Key] += max(len(t.nodes.nodes), 1)
	t.reasons = append([]alloc.NodeReason{{Name: everyNode, Reason: r.Reason, Hint: r.Hint}}, t.reasons...)
	t.reasons = t.reasons[:min(len(t.reasons), maxReasons)]
}

// metric returns the counts; the maps are shared by all metrics made until the next change.
func (t *tally) metric() alloc.Metric {
	if t.frozen == nil {
		t.frozen = &alloc.Metric{
			NodesEvaluated:     t.evaluated,
			NodesFiltered:      t.filtered,
			NodesInPool:        t.nodes.inPool,
			NodesAvailable:     t.nodes.available,
			NodesExhausted:     t.exhausted,
			ClassFiltered:      frozenCounts(t.classOut),
			ConstraintFiltered: frozenCounts(t.constraint),
			ClassExhausted:     frozenCounts(t.classFull),
			DimensionExhausted: frozenCounts(t.dimension),
		}
	}
	m := *t.frozen
	m.NodesEvaluated = t.evaluated
	return m
}

func frozenCounts(m map[string]int) map[string]int {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// failure returns the counts with the reasons node by node, those that were no candidates at all included.
func (t *tally) failure() *alloc.Metric {
	m := t.metric()
	m.Reasons = append(append([]alloc.NodeReason{}, t.reasons...), t.nodes.reasons...)
	m.Reasons = m.Reasons[:min(len(m.Reasons), maxReasons)]
	return &m
}

// penalised are the nodes on which the predecessors of a failed alloc ran.
func penalised(prev *alloc.Alloc) map[ids.Node]bool {
	out := map[ids.Node]bool{prev.Node: true}
	for _, e := range prev.Reschedule {
		out[e.PrevNode] = true
	}
	return out
}
