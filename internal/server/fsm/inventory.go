package fsm

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

func init() {
	register[InventoryApply]("inventory-apply", 2, "server/endpoint")
	register[ClaimProof]("claim-proof", 2, "server/endpoint")
}

// InventoryApply takes over what a node knows of its stagings and publications, and ends the claims that it shows to be
// released. A full report replaces everything that the node reported before.
type InventoryApply struct {
	Node       ids.Node
	Full       bool
	AllocIndex uint64
	// Prev is the index of the report that this one follows. A report that was delayed on its way follows another than
	// the newest and is not taken over: it would bring back what has changed since.
	Prev    uint64
	Entries []volume.InventoryEntry
}

// Releases lets volumes be released when the disk is nearly full.
func (c *InventoryApply) Releases() bool { return true }

// Apply returns a *wire.InventoryReply: what the node may erase, and the publications whose claims were ended by proof.
func (c *InventoryApply) Apply(tx *state.Tx, st Stamp) (any, error) {
	if head := tx.InventoryHead(nil, c.Node); head != nil && head.ModifyIndex != c.Prev {
		return &wire.InventoryReply{Index: st.Index, Head: head.ModifyIndex, Stale: true}, nil
	}
	reply := &wire.InventoryReply{Index: st.Index, Head: st.Index}
	touched := map[volume.ID]bool{}
	if c.Full {
		for _, p := range collect(tx.ClaimProofsOf(nil, c.Node)) {
			if !slices.ContainsFunc(c.Entries, func(e volume.InventoryEntry) bool {
				return e.StagingKey == p.StagingKey
			}) {
				tx.DeleteClaimProof(p) // the node holds nothing of it
			}
		}
		for _, old := range collect(tx.InventoryOf(nil, c.Node)) {
			if !slices.ContainsFunc(c.Entries, func(e volume.InventoryEntry) bool {
				return e.StagingKey == old.Entry.StagingKey
			}) {
				tx.DeleteInventoryEntry(c.Node, old.Entry.StagingKey)
				touched[old.Entry.Volume] = true
			}
		}
	}
	for _, e := range c.Entries {
		touched[e.Volume] = true
		c.dropProofs(tx, e)
		if e.Quiet() && !slices.ContainsFunc(e.Publications, func(p volume.InventoryPublication) bool {
			return p.Wanted
		}) {
			tx.DeleteInventoryEntry(c.Node, e.StagingKey)
			reply.Acked = append(reply.Acked, e.StagingKey)
			continue
		}
		tx.PutInventoryEntry(c.Node, e)
		reply.Void = append(reply.Void, voidOf(tx, c.Node, e)...)
	}
	if c.head(tx, st) || c.Full { // its silence says more than before
		for _, cl := range collect(tx.ClaimsByNode(nil, c.Node)) {
			touched[cl.Volume] = true
		}
	}
	for _, id := range sortedIDs(touched) {
		settle(tx, st, id)
		noteExpansion(tx, id)
	}
	return reply, nil
}

// head records the report and reports whether it was taken at a newer set of allocs.
func (c *InventoryApply) head(tx *state.Tx, st Stamp) (newer bool) {
	h := &state.InventoryHead{Node: c.Node, AllocIndex: c.AllocIndex}
	newer = true
	if old := tx.InventoryHead(nil, c.Node); old != nil {
		h.FullIndex = old.FullIndex
		newer = h.AllocIndex > old.AllocIndex
		h.AllocIndex = max(h.AllocIndex, old.AllocIndex)
	}
	if c.Full {
		h.FullIndex = st.Index
	}
	tx.PutInventoryHead(h)
	return newer
}

// dropProofs forgets the proofs of claims of which a node shows that it holds nothing any more.
func (c *InventoryApply) dropProofs(tx *state.Tx, e volume.InventoryEntry) {
	for _, p := range collect(tx.ClaimProofsOf(nil, c.Node)) {
		if p.StagingKey == e.StagingKey &&
			!slices.ContainsFunc(e.Publications, func(o volume.InventoryPublication) bool {
				return o.Alloc == p.Alloc && o.Epoch == p.Epoch
			}) {
			tx.DeleteClaimProof(p)
		}
	}
}

// voidOf lists the publications of an entry that no claim allows any more: their claims ended by proof, or this state
// continues the one under which the node received them and knows them no longer. What a state does not know because it
// was emptied, cut or restored is not void: nobody has ended it.
func voidOf(tx *state.Tx, node ids.Node, e volume.InventoryEntry) []wire.VoidClaim {
	var out []wire.VoidClaim
	for _, p := range e.Publications {
		key := volume.PublicationKey{StagingKey: e.StagingKey, Alloc: p.Alloc}
		cl := tx.Claim(nil, volume.ClaimKey{Volume: e.Volume, Alloc: p.Alloc})
		if !p.Wanted || cl != nil && cl.Epoch == p.Epoch {
			continue
		}
		if tx.ClaimProof(node, key, p.Epoch) != nil || tx.Relate(received(p)) == lineage.Continues {
			out = append(out, wire.VoidClaim{PublicationKey: key, Epoch: p.Epoch})
		}
	}
	return out
}

// received is where the servers' state was when a node received a claim. A record from before there were marks has the
// claim's epoch, which is earlier.
func received(p volume.InventoryPublication) lineage.Point {
	if p.Received.IsZero() {
		return lineage.Point{Incarnation: p.Epoch.Incarnation, Index: p.Epoch.Index}
	}
	return p.Received
}

func sortedIDs(set map[volume.ID]bool) []volume.ID {
	out := make([]volume.ID, 0, len(set))
	for id := range set {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b volume.ID) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return out
}

// ClaimProof ends a claim because it is certain, by other evidence than the node's inventory, that the node no longer
// writes. The node learns at its next report that the epoch is void and cleans up first.
type ClaimProof struct {
	Claim  volume.ClaimKey
	Epoch  volume.Epoch
	Proof  volume.Proof
	Reason string
}

// Apply returns whether the claim was there in this epoch.
func (c *ClaimProof) Apply(tx *state.Tx, st Stamp) (any, error) {
	cl := tx.Claim(nil, c.Claim)
	if cl == nil || cl.Epoch != c.Epoch || c.Proof == volume.ProofNone {
		return false, nil
	}
	// What the node reported of it last is void with the claim; a node that comes back reports anew, and cleans up.
	if v := tx.Volume(nil, cl.Volume); v != nil {
		key := volume.StagingKey{Plugin: v.Spec.Plugin, ExternalID: v.Status.ExternalID}
		tx.DeleteInventoryEntry(cl.Node, key)
		tx.PutClaimProof(&state.ClaimProof{
			Node:           cl.Node,
			PublicationKey: volume.PublicationKey{StagingKey: key, Alloc: cl.Alloc},
			Volume:         cl.Volume,
			Epoch:          cl.Epoch,
			Proof:          c.Proof,
			Reason:         c.Reason,
			Time:           st.Time,
		})
	}
	endClaim(tx, cl)
	promote(tx, st, c.Claim.Volume)
	return true, nil
}

// settle ends every claim of a volume that has been released, and lets the queued one step up. It is the only place
// where a claim ends without other proof.
func settle(tx *state.Tx, st Stamp, id volume.ID) {
	for _, cl := range collect(tx.ClaimsByVolume(nil, id)) {
		if cl.State == volume.Releasing && Released(&tx.Snap, nil, cl) {
			endClaim(tx, cl)
		}
	}
	promote(tx, st, id)
}

// promote turns the queued claim into a held one when nothing stands in its way.
func promote(tx *state.Tx, st Stamp, id volume.ID) {
	for _, cl := range collect(tx.ClaimsByVolume(nil, id)) {
		if cl.State != volume.Queued {
			continue
		}
		n := *cl
		n.State = volume.Held
		n.Since = st.Time
		n.Reason = ""
		if admissible(tx, &n) != nil {
			continue
		}
		v := tx.Volume(nil, id)
		if v == nil {
			continue
		}
		tx.PutClaim(&n)
		begin(tx, v, &n)
	}
}

// Released reads the facts of a claim and asks its flow.
func Released(s *state.Snap, w *state.Watch, cl *volume.Claim) bool {
	f := volume.ClaimFacts{}
	if h := s.InventoryHead(w, cl.Node); h != nil {
		f.Inventoried = h.FullIndex > 0 && h.AllocIndex >= cl.Epoch.Index
	}
	if v := s.Volume(w, cl.Volume); v != nil {
		if i := s.InventoryEntry(w, cl.Node,
			volume.StagingKey{Plugin: v.Spec.Plugin, ExternalID: v.Status.ExternalID}); i != nil {
			f.Entry = &i.Entry
		}
	} else { // forgotten by force: the node still says what it has
		for i := range s.InventoryByVolume(w, cl.Volume) {
			if i.Node == cl.Node {
				f.Entry = &i.Entry
			}
		}
	}
	for o := range s.ClaimsByVolume(w, cl.Volume) {
		if o.Alloc != cl.Alloc && o.Node == cl.Node && o.State != volume.Releasing {
			f.OthersOnNode = true
		}
	}
	return volume.NextClaim(cl, f) == volume.ClaimEnds
}

// noteExpansion clears the pending node expansion of a volume once a node reached its size.
func noteExpansion(tx *state.Tx, id volume.ID) {
	v := tx.Volume(nil, id)
	if v == nil || !v.Status.NodeExpandPending {
		return
	}
	for i := range tx.InventoryByVolume(nil, id) {
		if i.Entry.ExpandedTo >= v.Status.Capacity && v.Status.Capacity > 0 {
			n := *v
			n.Status.NodeExpandPending = false
			tx.PutVolume(&n)
			return
		}
	}
}
