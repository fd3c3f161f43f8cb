package state

import (
	"iter"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// ClaimProofs names the table of claims that ended by proof.
const ClaimProofs = "claim_proofs"

// ClaimProof says that a claim ended by other evidence than its node's word. It stays until that node reported that it
// has nothing of the claim any more: what the node still holds under this epoch is void.
type ClaimProof struct {
	Node ids.Node
	volume.PublicationKey
	Volume volume.ID
	Epoch  volume.Epoch
	Proof  volume.Proof
	Reason string
	Time   time.Time
	Index  uint64
}

var claimProofs = &table[ClaimProof]{
	name: ClaimProofs,
	key:  func(p *ClaimProof) Key { return proofKey(p.Node, p.PublicationKey, p.Epoch) },
	indexes: []index[ClaimProof]{
		one(byExternal, func(p *ClaimProof) Key { return stagingKey(p.StagingKey) }),
	},
	stamp:    func(now, _ *ClaimProof, index uint64) { now.Index = index },
	modified: func(p *ClaimProof) uint64 { return p.Index },
}

func proofKey(node ids.Node, k volume.PublicationKey, e volume.Epoch) Key {
	return KeyOf(string(node), string(k.Plugin), k.ExternalID, string(k.Alloc), e.Incarnation, number(e.Index))
}

// ClaimProof returns the proof that ended a claim of an epoch on a node, or nil.
func (s *Snap) ClaimProof(node ids.Node, k volume.PublicationKey, e volume.Epoch) *ClaimProof {
	return claimProofs.get(s, nil, proofKey(node, k, e))
}

// ClaimProofsOf yields the proofs whose void claims a node may still hold.
func (s *Snap) ClaimProofsOf(w *Watch, node ids.Node) iter.Seq[*ClaimProof] {
	return claimProofs.scan(s, w, KeyOf(node))
}

// ClaimProofsFor yields the proofs of a provider's volume, by node.
func (s *Snap) ClaimProofsFor(w *Watch, k volume.StagingKey) iter.Seq[*ClaimProof] {
	return claimProofs.find(s, w, byExternal, stagingKey(k))
}

// PutClaimProof stores a proof.
func (tx *Tx) PutClaimProof(p *ClaimProof) { claimProofs.put(tx, p) }

// DeleteClaimProof forgets a proof.
func (tx *Tx) DeleteClaimProof(p *ClaimProof) { claimProofs.drop(tx, claimProofs.key(p)) }

// ProveEnd files the proof that a claim has ended, under every epoch by which its node may know it.
func (tx *Tx) ProveEnd(c *volume.Claim, proof volume.Proof, reason string) {
	for _, e := range c.Epochs() {
		tx.PutClaimProof(&ClaimProof{
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
