package volume

import "berth/internal/base/ids"

// Excludes tells whether two claims of one volume cannot be held at the same time. It is the law of shared use; ledger,
// replicated state, planner and node ask it here. testdata/exclusion.txt is its truth table.
//
// Only the access mode, the nodes and the wish to write count. A state does not: who holds and who is still releasing
// use the volume alike, until it is known that they do not, and a claim in the queue excludes what it will exclude
// when it is held. By mode:
//
//   - single-node-writer: one claim at a time, on the same node too (CSI publishes such a volume once);
//   - single-node-reader-only: any number of claims on one node, none on another;
//   - multi-node-reader-only and multi-node-multi-writer: nobody excludes anybody;
//   - multi-node-single-writer: any number of readers on any nodes, one writer;
//   - two claims of different modes, and those of a mode that is not known, exclude each other: a volume is used in one
//     way at a time.
func Excludes(a, b *Claim) bool {
	if a.AccessMode != b.AccessMode {
		return true
	}
	switch a.AccessMode {
	case SingleNodeReader:
		return a.Node != b.Node
	case MultiNodeReader, MultiNodeMultiWriter:
		return false
	case MultiNodeSingleWriter:
		return !a.ReadOnly && !b.ReadOnly
	}
	return true
}

// Admit says as what a claim may begin beside the others of its volume: held, when none of them excludes it; queued,
// when those that do are about to end, and by is one of them. Of a volume at most one claim is queued, and nobody
// overtakes it. The empty state means that the claim cannot begin, because of by. ending tells whether an alloc's use
// of its volumes comes to an end.
func Admit(c *Claim, others []*Claim, ending func(ids.Alloc) bool) (as ClaimState, by *Claim) {
	as = Held
	var first *Claim // in the queue
	for _, o := range others {
		if o.Alloc == c.Alloc {
			continue
		}
		if o.State == Queued && first == nil {
			first = o
		}
		switch {
		case !Excludes(o, c):
		case o.State == Queued || !ending(o.Alloc):
			return "", o
		case by == nil:
			as, by = Queued, o
		}
	}
	if as == Queued && first != nil {
		return "", first
	}
	return as, by
}

// NodeDecides reports modes in which the node decides whether two claims exclude each other.
func (m AccessMode) NodeDecides() bool { return m == SingleNodeReader }
