package fsm

import (
	"fmt"
	"maps"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

func init() {
	Register[InventoryApply]("inventory-apply", unknownMounts, "server/endpoint/nodes")
	Register[ClaimProof]("claim-proof", identities, "server/endpoint/storage")
}

// unknownMounts is the schema from which on reports say what the node cannot name.
const unknownMounts = 5

// InventoryApply takes over what a node knows of its stagings and publications, and ends the claims that it shows to be
// released. A full report replaces everything that the node reported before.
type InventoryApply struct {
	Node       ids.Node
	Full       bool
	AllocIndex uint64
	// Incarnation is that of the set of allocs at which the report was taken; empty: of none.
	Incarnation string
	// Prev is the index of the report that this one follows. A report that was delayed on its way follows another than
	// the newest and is not taken over: it would bring back what has changed since.
	Prev    uint64
	Entries []volume.InventoryEntry
	Unknown []volume.UnknownMount // all of them, in every report
}

// Releases lets volumes be released when the disk is nearly full.
func (c *InventoryApply) Releases() bool { return true }

// Apply returns a *wire.InventoryReply: what the node may erase, and the publications whose claims were ended by proof.
func (c *InventoryApply) Apply(tx *state.Tx, st Stamp) (any, error) {
	if head := tx.InventoryHead(nil, c.Node); head != nil && head.ModifyIndex != c.Prev {
		return &wire.InventoryReply{Index: st.Index, Head: head.ModifyIndex, Stale: true}, nil
	}
	reply := &wire.InventoryReply{Index: st.Index, Head: st.Index}
	touched := attaching.Strays(&tx.Snap, c.Node) // they may have a name or be gone now
	if c.Full {
		for _, p := range collect(tx.ClaimProofsOf(nil, c.Node)) {
			if !slices.ContainsFunc(c.Entries, func(e volume.InventoryEntry) bool {
				return e.StagingKey == p.StagingKey
			}) {
				tx.DeleteClaimProof(p) // the node holds nothing of it
				touched[p.StagingKey] = true
			}
		}
		for _, old := range collect(tx.InventoryOf(nil, c.Node)) {
			if !slices.ContainsFunc(c.Entries, func(e volume.InventoryEntry) bool {
				return e.StagingKey == old.Entry.StagingKey
			}) {
				tx.DeleteInventoryEntry(c.Node, old.Entry.StagingKey)
				touched[old.Entry.StagingKey] = true
			}
		}
	}
	for _, e := range c.Entries {
		touched[e.StagingKey] = true
		c.noteAttachment(tx, st, e)
		c.dropProofs(tx, e)
		if e.Quiet() && !slices.ContainsFunc(e.Publications, func(p volume.InventoryPublication) bool {
			return p.Wanted
		}) {
			tx.DeleteInventoryEntry(c.Node, e.StagingKey)
			reply.Acked = append(reply.Acked, e.StagingKey)
			continue
		}
		tx.PutInventoryEntry(c.Node, e)
		reply.Void = append(reply.Void, holders.Void(&tx.Snap, c.Node, e)...)
		tx.ConfirmEpochs(attaching.Bounded(&tx.Snap, c.Node), e)
	}
	for _, k := range attaching.Unnamed(&tx.Snap, c.Unknown) {
		c.noteAttachment(tx, st, volume.InventoryEntry{StagingKey: k, Staging: volume.Uncertain})
	}
	if c.head(tx, st) || c.Full { // its silence says more than before, or nothing unknown stands against it
		for _, cl := range collect(tx.ClaimsByNode(nil, c.Node)) {
			touched[cl.Staging()] = true
		}
	}
	c.heard(tx, st)
	for _, k := range slices.SortedFunc(maps.Keys(touched), volume.StagingKey.Compare) {
		c.remember(tx, st, k)
		Settle(tx, st, k)
		noteExpansion(tx, k)
		buryIfDone(tx, k)
	}
	return reply, nil
}

// remember adds to the history of a volume how the node came to hold nothing of it any more, if that was not by its
// plugin's word, and a claim ends by it.
func (c *InventoryApply) remember(tx *state.Tx, st Stamp, k volume.StagingKey) {
	at := slices.IndexFunc(c.Entries, func(e volume.InventoryEntry) bool {
		return e.StagingKey == k && e.Undone != nil
	})
	if at < 0 {
		return
	}
	u := c.Entries[at].Undone
	for cl := range tx.ClaimsOf(nil, k) {
		if cl.Node == c.Node && cl.State == volume.Releasing && Released(&tx.Snap, nil, cl) {
			keepEnd(tx, st, cl, *u)
		}
	}
}

// head records the report and reports whether it was taken at a newer set of allocs. What the node is silent about
// counts as of the report that was silent: one taken at an older set, of a node whose store was rolled back, says
// nothing of claims that are newer than itself, whatever an earlier one knew.
func (c *InventoryApply) head(tx *state.Tx, st Stamp) (newer bool) {
	h := &state.InventoryHead{Node: c.Node, AllocIndex: c.AllocIndex, Unknown: c.Unknown}
	newer = true
	if old := tx.InventoryHead(nil, c.Node); old != nil {
		h.FullIndex = old.FullIndex
		newer = h.AllocIndex > old.AllocIndex || len(old.Unknown) > 0
		if !reached(tx, identities) {
			h.AllocIndex = max(h.AllocIndex, old.AllocIndex) // as entries of older logs were applied
		}
	}
	if c.Full {
		h.FullIndex = st.Index
	}
	tx.PutInventoryHead(h)
	return newer
}

// heard notes that the node has said, in the incarnation that a restore began, all that it holds.
func (c *InventoryApply) heard(tx *state.Tx, st Stamp) {
	r := tx.Recovery(nil)
	if !c.Full || !r.Expects(c.Node) || c.Incarnation != r.Incarnation || tx.Session(nil, c.Node).Doubted() != "" {
		return // of one in doubt, it may not be the one that holds what the state does not know
	}
	tx.PutRecovery(r.With(c.Node, "", st.Time, func(n *recovery.Node) { n.Reported = st.Index }))
	PromoteQueued(tx, st)
}

// noteAttachment takes over an attachment that the state lacks and the node's report tells of.
func (c *InventoryApply) noteAttachment(tx *state.Tx, st Stamp, e volume.InventoryEntry) {
	if a := attaching.Missing(&tx.Snap, c.Node, e); a != nil && reached(tx, unknownMounts) {
		a.Since = st.Time
		tx.PutAttachment(a)
	}
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

// ClaimProof ends a claim because it is certain, by other evidence than the node's inventory, that the node no longer
// writes. The node learns at its next report that the epoch is void and cleans up first.
type ClaimProof struct {
	Claim  volume.ClaimKey
	Epoch  volume.Epoch
	Proof  volume.Proof
	Reason string
	By     string // who vouches for it; empty in entries from before it was recorded
}

// Apply returns whether the claim was there in this epoch.
func (c *ClaimProof) Apply(tx *state.Tx, st Stamp) (any, error) {
	cl := tx.Claim(nil, c.Claim)
	if cl == nil || cl.Epoch != c.Epoch || c.Proof == volume.ProofNone {
		return false, nil
	}
	if why := suspension.Destruction(&tx.Snap, nil, cl.Staging()); why != nil {
		return nil, why.Refuse("detach", cl.Volume.String())
	}
	// The word that a node is dead is about the node as it was: one that came back meanwhile is not.
	if n := tx.Node(nil, cl.Node); c.Proof == volume.ProofAttested && n != nil && n.Status != node.StatusDown &&
		reached(tx, identities) {
		return nil, fault.WithHint(fault.New(fault.Conflict, "detach", cl.Volume.String(),
			fmt.Sprintf("node %s is %s, not down", ids.Short(n.ID), n.Status)),
			"a node that answers releases its volumes by itself: stop the allocations that use them")
	}
	// What the node reported of it last is void with the claim; a node that comes back reports anew, and cleans up.
	tx.DeleteInventoryEntry(cl.Node, cl.Staging())
	loseUnknown(tx, st, cl)
	tx.ProveEnd(cl, c.Proof, c.Reason)
	keepEnd(tx, st, cl, volume.Undone{Proof: c.Proof, Reason: c.Reason, By: c.By})
	endClaim(tx, cl)
	promote(tx, st, cl.Staging())
	return true, nil
}

// keepEnd adds how a claim ends to the history of the volume, which outlives the node's report that it has cleaned up.
func keepEnd(tx *state.Tx, st Stamp, cl *volume.Claim, u volume.Undone) {
	if !reached(tx, identities) || cl.UID == "" {
		return // of an older log, or of a volume without an identity
	}
	tx.AddProvenEnd(&volume.ProvenEnd{
		UID:    cl.UID,
		Volume: cl.Volume,
		Node:   cl.Node,
		Alloc:  cl.Alloc,
		Epoch:  cl.Epoch,
		Proof:  u.Proof,
		Reason: u.Reason,
		By:     u.By,
		Time:   st.Time,
	})
}

// Settle ends every claim of a volume that has been released, and lets the queued one step up. It is the only place
// where a claim ends without other proof.
func Settle(tx *state.Tx, st Stamp, k volume.StagingKey) {
	for _, cl := range collect(tx.ClaimsOf(nil, k)) {
		if cl.State == volume.Releasing && Released(&tx.Snap, nil, cl) {
			endClaim(tx, cl)
		}
	}
	promote(tx, st, k)
}

// promote turns the queued claim into a held one when nothing stands in its way.
func promote(tx *state.Tx, st Stamp, k volume.StagingKey) {
	for cl := range tx.ClaimsOf(nil, k) {
		if cl.State != volume.Queued {
			continue
		}
		n := *cl
		n.State = volume.Held
		n.Since = st.Time
		n.Reason = ""
		v := tx.VolumeOf(nil, k)
		if v == nil || admissible(tx, &n) != nil || suspension.Claims(&tx.Snap, nil, v) != nil {
			continue
		}
		tx.PutClaim(&n)
		begin(tx, v, &n)
	}
}

// PromoteQueued looks at every queued claim: what held them up concerned many volumes.
func PromoteQueued(tx *state.Tx, st Stamp) {
	queued := map[volume.StagingKey]bool{}
	for cl := range tx.Claims(nil) {
		if cl.State == volume.Queued {
			queued[cl.Staging()] = true
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(queued), volume.StagingKey.Compare) {
		promote(tx, st, k)
	}
}

// Released reads the facts of a claim and asks its flow.
func Released(s *state.Snap, w *state.Watch, cl *volume.Claim) bool {
	f := volume.ClaimFacts{Doubted: s.Session(w, cl.Node).Doubt(cl.Epoch.Index) != ""}
	if h := s.InventoryHead(w, cl.Node); h != nil {
		f.Inventoried = h.FullIndex > 0 && h.AllocIndex >= cl.Epoch.Index
		_, f.Unknown = volume.UnknownOf(h.Unknown, cl.Plugin)
	}
	if i := s.InventoryEntry(w, cl.Node, cl.Staging()); i != nil {
		f.Entry = &i.Entry
		f.OthersOnNode = s.Understands(recoveries) && slices.ContainsFunc(i.Entry.Publications,
			func(p volume.InventoryPublication) bool { return p.Alloc != cl.Alloc && p.Presence.Exists() })
	}
	for o := range s.ClaimsOf(w, cl.Staging()) {
		if o.Alloc != cl.Alloc && o.Node == cl.Node && o.State != volume.Releasing {
			f.OthersOnNode = true
		}
	}
	return volume.NextClaim(cl, f) == volume.ClaimEnds
}

// noteExpansion clears the pending node expansion of a volume once every node that has it staged reached its size. A
// node that stages it later gets the size with its grant.
func noteExpansion(tx *state.Tx, k volume.StagingKey) {
	v := tx.VolumeOf(nil, k)
	if v == nil || !v.Status.NodeExpandPending || v.Status.Capacity == 0 {
		return
	}
	if holders.Grown(&tx.Snap, k, v.Status.Capacity) {
		n := *v
		n.Status.NodeExpandPending = false
		tx.PutVolume(&n)
	}
}
