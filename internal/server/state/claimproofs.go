package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// ClaimProofs names the table of claims that ended by proof.
const ClaimProofs = "claim_proofs"

var claimProofs = &table[volume.ClaimProof]{
	name: ClaimProofs,
	key:  func(p *volume.ClaimProof) Key { return proofKey(p.Node, p.PublicationKey, p.Epoch) },
	indexes: []index[volume.ClaimProof]{
		one(byExternal, func(p *volume.ClaimProof) Key { return stagingKey(p.StagingKey) }),
	},
	stamp:    func(now, _ *volume.ClaimProof, index uint64) { now.Index = index },
	modified: func(p *volume.ClaimProof) uint64 { return p.Index },
}

func proofKey(node ids.Node, k volume.PublicationKey, e volume.Epoch) Key {
	return KeyOf(string(node), string(k.Plugin), k.ExternalID, string(k.Alloc), e.Incarnation, number(e.Index))
}

// ClaimProof returns the proof that ended a claim of an epoch on a node, or nil.
func (s *Snap) ClaimProof(node ids.Node, k volume.PublicationKey, e volume.Epoch) *volume.ClaimProof {
	return claimProofs.get(s, nil, proofKey(node, k, e))
}

// ClaimProofsOf yields the proofs whose void claims a node may still hold.
func (s *Snap) ClaimProofsOf(w *Watch, node ids.Node) iter.Seq[*volume.ClaimProof] {
	return claimProofs.scan(s, w, KeyOf(node))
}

// ClaimProofsFor yields the proofs of a provider's volume, by node.
func (s *Snap) ClaimProofsFor(w *Watch, k volume.StagingKey) iter.Seq[*volume.ClaimProof] {
	return claimProofs.find(s, w, byExternal, stagingKey(k))
}

// PutClaimProof stores a proof.
func (tx *Tx) PutClaimProof(p *volume.ClaimProof) { claimProofs.put(tx, p) }

// DeleteClaimProof forgets a proof.
func (tx *Tx) DeleteClaimProof(p *volume.ClaimProof) { claimProofs.drop(tx, claimProofs.key(p)) }

// ProveEnd files the proof that a claim has ended, under every epoch by which its node may know it.
func (tx *Tx) ProveEnd(c *volume.Claim, proof volume.Proof, reason string) {
	for _, e := range c.Epochs() {
		tx.PutClaimProof(&volume.ClaimProof{
			Node:           c.Node,
			PublicationKey: volume.PublicationKey{StagingKey: c.Staging(), Alloc: c.Alloc},
			Volume:         c.Volume,
			Epoch:          e,
			Proof:          proof,
			Reason:         reason,
			Time:           tx.stamp.Time,
		})
	}
}
