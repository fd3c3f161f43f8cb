package state

import (
	"iter"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// Claims names the table of claims.
const Claims = "claims"

var claims = &table[volume.Claim]{
	name: Claims,
	key:  func(c *volume.Claim) Key { return claimKey(c.Key()) },
	indexes: []index[volume.Claim]{
		one(byAlloc, func(c *volume.Claim) Key { return KeyOf(c.Alloc) }),
		one(byNode, func(c *volume.Claim) Key { return KeyOf(c.Node) }),
		one(byExternal, func(c *volume.Claim) Key { return stagingKey(c.Staging()) }),
	},
	stamp:    stamping(func(o *volume.Claim) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(c *volume.Claim) uint64 { return c.ModifyIndex },
	news:     func(tx *Tx, c *volume.Claim) { tx.tell(News{Staging: c.Staging()}) },
}

func claimKey(k volume.ClaimKey) Key {
	return KeyOf(string(k.Volume.Namespace), string(k.Volume.ID), string(k.Alloc))
}

// Claim returns a claim, or nil.
func (s *Snap) Claim(w *Watch, k volume.ClaimKey) *volume.Claim { return claims.get(s, w, claimKey(k)) }

// Claims yields all claims, by name of volume and alloc.
func (s *Snap) Claims(w *Watch) iter.Seq[*volume.Claim] { return claims.scan(s, w, "") }

// ClaimsOf yields the claims of a provider's volume, under whichever name they were made.
func (s *Snap) ClaimsOf(w *Watch, k volume.StagingKey) iter.Seq[*volume.Claim] {
	return claims.find(s, w, byExternal, stagingKey(k))
}

// ClaimsByAlloc yields an alloc's claims, by volume.
func (s *Snap) ClaimsByAlloc(w *Watch, id ids.Alloc) iter.Seq[*volume.Claim] {
	return claims.find(s, w, byAlloc, KeyOf(id))
}

// ClaimsByNode yields the claims on a node, by volume and alloc.
func (s *Snap) ClaimsByNode(w *Watch, id ids.Node) iter.Seq[*volume.Claim] {
	return claims.find(s, w, byNode, KeyOf(id))
}

// PutClaim stores a claim.
func (tx *Tx) PutClaim(c *volume.Claim) { claims.put(tx, c) }

// DeleteClaim ends a claim's record.
func (tx *Tx) DeleteClaim(k volume.ClaimKey) bool { return claims.drop(tx, claimKey(k)) }

// ConfirmEpochs forgets the epochs under which a node knew its claims before they were adopted, once it reports under
// the new ones. by is that node; empty: whichever the claims are on.
func (tx *Tx) ConfirmEpochs(by ids.Node, e volume.InventoryEntry) {
	for _, p := range e.Publications {
		for _, c := range slices.Collect(tx.ClaimsByAlloc(nil, p.Alloc)) {
			if c.Before != nil && (by == "" || c.Node == by) && c.Staging() == e.StagingKey && c.Epoch == p.Epoch {
				n := *c
				n.Before = nil
				tx.PutClaim(&n)
			}
		}
	}
}
