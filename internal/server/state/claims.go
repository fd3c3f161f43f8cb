package state

import (
	"iter"

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
	stamp: func(now, old *volume.Claim, index uint64) {
		now.CreateIndex, now.ModifyIndex = index, index
		if old != nil {
			now.CreateIndex = old.CreateIndex
		}
	},
	modified: func(c *volume.Claim) uint64 { return c.ModifyIndex },
}

func claimKey(k volume.ClaimKey) Key { return volumeKey(k.Volume).with(string(k.Alloc)) }

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
