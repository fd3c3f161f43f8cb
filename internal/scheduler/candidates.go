package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

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
// Nodes are known by their groups; only those that are wanted are looked at, so that their number does not matter.
type candidates struct {
	view      Nodes
	seed      uint64
	members   filter.Chain // that a candidate passes, beside being ready
	groups    []node.GroupSize
	others    []node.Group // that have no candidate
	total     int
	inPool    int
	available map[string]int // by datacenter
}

// newCandidates looks at every group once. The seed decides the order in which a walk yields nodes, so that the
// placements of different evaluations begin at different ones.
func newCandidates(v Nodes, j *job.Job, seed string) *candidates {
	sum := sha256.Sum256([]byte(seed)) // of which all bits change with each of the seed's
	c := &candidates{view: v, seed: binary.BigEndian.Uint64(sum[:]), available: map[string]int{}}
	req := &filter.Request{Job: j}
	pool := filter.Prepare(req, &filter.Pool{})
	rest := filter.Prepare(req, &filter.Datacenters{})
	c.members = slices.Concat(pool, rest)
	for g := range v.Groups() {
		like := &node.Node{NodePool: g.Pool, Datacenter: g.Datacenter}
		if _, outside := pool.Check(like); outside != "" || !g.Ready {
			c.others = append(c.others, g.Group)
			continue
		}
		c.inPool += g.Nodes
		if _, outside := rest.Check(like); outside != "" {
			c.others = append(c.others, g.Group)
			continue
		}
		c.available[g.Datacenter] += g.Nodes
		c.total += g.Nodes
		c.groups = append(c.groups, *g)
	}
	return c
}

// has reports whether a node is a candidate.
func (c *candidates) has(n *node.Node) bool {
	_, outside := c.members.Check(n)
	return outside == "" && n.Ready()
}

// outside returns the filter that makes a node no candidate.
func (c *candidates) outside(n *node.Node) filter.Filter {
	if f, key := c.members.Check(n); key != "" && (n.Ready() || f.Check(n) == filter.PoolKey) {
		return f
	}
	return filter.Ready{}
}

// all yields every candidate, group by group.
func (c *candidates) all(yield func(*node.Node) bool) {
	for _, g := range c.groups {
		for n := range c.view.Of(g.Group, "") {
			if !yield(n) {
				return
			}
		}
	}
}

// reasons says of nodes that are no candidates why not, of so many at most.
func (c *candidates) reasons(most int) []alloc.NodeReason {
	var out []alloc.NodeReason
	for _, g := range c.others {
		for n := range c.view.Of(g, "") {
			if len(out) >= most {
				return out
			}
			reason, hint := c.outside(n).Explain(n)
			out = append(out, alloc.NodeReason{Node: n.ID, Name: n.Name, Reason: reason, Hint: hint})
		}
	}
	return out
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
	storage    string        // what volumes keep from the first node that they keep it from
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
	if _, csi := f.(*filter.CSI); csi && t.storage == "" {
		t.storage, _ = f.Explain(n)
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

// bound counts the candidates as refused because a volume lives on another node, which is none.
func (t *tally) bound(n *node.Node, id ids.Volume) {
	reason, hint := livesOn(id, n, t.nodes.outside(n))
	t.refuseAll(&filter.Refusal{Key: filter.TopologyKey, Reason: reason, Hint: hint})
}

// keptFrom says of the node on which a volume lives, and which a filter has refused, that no other would do.
func (t *tally) keptFrom(n *node.Node, id ids.Volume, f filter.Filter) {
	reason, hint := livesOn(id, n, f)
	t.reasons = slices.DeleteFunc(t.reasons, func(r alloc.NodeReason) bool { return r.Node == n.ID })
	t.reasons = slices.Insert(t.reasons, 0, alloc.NodeReason{Node: n.ID, Name: n.Name, Reason: reason, Hint: hint})
	t.frozen = nil
}

// livesOn says what is in the way of an alloc on the only node that would do, and the way out.
func livesOn(id ids.Volume, n *node.Node, f filter.Filter) (reason, hint string) {
	reason, hint = f.Explain(n)
	switch f.(type) {
	case *filter.Constraints, *filter.Pool, *filter.Datacenters:
		return fmt.Sprintf("volume %q lives on node %s, which the job excludes: %s", id, n.Name, reason),
			"let the job run on that node, or have it use another volume"
	}
	if hint != "" {
		hint += "; or "
	}
	return fmt.Sprintf("volume %q lives on node %s: %s", id, n.Name, reason), hint + "have the job use another volume"
}

// refuseAll counts a refusal that holds on every candidate.
func (t *tally) refuseAll(r *filter.Refusal) {
	t.frozen = nil
	t.filtered += t.nodes.total
	t.storage = r.Reason
	t.constraint[r.Key] += max(t.nodes.total, 1)
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
	m.Storage = t.storage
	m.Reasons = append(slices.Clip(t.reasons), t.nodes.reasons(maxReasons-len(t.reasons))...)
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
