package diff

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
)

// SystemInput is one group of a system job: one alloc on every node that fits.
type SystemInput struct {
	Input
	// Fits are the nodes that get an alloc; Keeps reports an alloc that may stay although none would be placed on its
	// node now: the node takes no new ones, or lacks for a while what it had.
	Fits  []ids.Node
	Keeps func(*alloc.Alloc) bool
}

// ReconcileSystem decides for a group of a system job. It is the reconciliation of a service node by node: on each
// node the group is wanted once.
func ReconcileSystem(in SystemInput) Result {
	var r Result
	byNode := map[ids.Node][]*alloc.Alloc{}
	nodes := slices.Clone(in.Fits)
	fits := make(map[ids.Node]bool, len(in.Fits))
	for _, n := range in.Fits {
		fits[n] = true
	}
	for _, a := range in.Allocs {
		if byNode[a.Node] == nil && !fits[a.Node] {
			nodes = append(nodes, a.Node)
		}
		byNode[a.Node] = append(byNode[a.Node], a)
	}
	slices.Sort(nodes)
	r.Fits = len(in.Fits)
	r.Canaries = in.wantedCanaries()
	if in.hold = in.held(); in.hold == "" && r.Canaries > 0 {
		in.hold = HeldByCanaries // its deployment is about to begin
	}
	r.Held = in.hold
	var kept []*alloc.Alloc
	for _, n := range nodes {
		one := in.Input
		one.Allocs = byNode[n]
		if a := in.node(one, n, fits[n], &r); a != nil {
			kept = append(kept, a)
		}
	}
	if in.Group != nil {
		in.update(in.tryOn(fits, kept, &r), &r)
	}
	return r
}

// node does one node's share and returns the alloc that runs there.
func (in *SystemInput) node(one Input, n ids.Node, fits bool, r *Result) *alloc.Alloc {
	slots := one.sort(r)
	if in.Group == nil {
		*r = one.stopAll(slots, *r)
		return nil
	}
	var s *slot
	for _, i := range sortedKeys(slots) { // a system job knows no index but 0
		if s == nil {
			s = slots[i]
			continue
		}
		r.retire(slots[i])
	}
	if in.Group.Count == 0 && s != nil {
		r.retire(s)
		return nil
	}
	if !fits {
		return in.unfit(s, r)
	}
	if in.Group.Count == 0 {
		return nil
	}
	before := len(r.Place)
	a := one.fill(0, s, r)
	for i := before; i < len(r.Place); i++ {
		p := &r.Place[i]
		p.Node = n
		if was := p.Previous; r.Canaries > 0 && was != nil && was.Canary && in.ours(was) {
			p.Canary = true // it is tried there, and goes on being
		}
	}
	return a
}

// unfit ends the allocs of a node that gets none, but for one that may stay, which it returns.
func (in *SystemInput) unfit(s *slot, r *Result) *alloc.Alloc {
	if s == nil {
		return nil
	}
	r.lose(s.lost)
	for _, a := range s.migrating {
		r.stop(a, WhyMigrating, false)
	}
	var kept *alloc.Alloc
	for _, a := range s.live {
		if kept == nil && in.Keeps(a) {
			kept = a
			continue
		}
		r.stop(a, WhyNodeUnfit, false)
	}
	return kept
}
