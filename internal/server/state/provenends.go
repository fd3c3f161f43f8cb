package state

import (
	"iter"
	"slices"

	"berth/internal/model/volume"
)

// ProvenEnds names the table of the history of claims that were ended by proof.
const ProvenEnds = "proven_ends"

// keptProvenEnds bounds the history of one volume.
const keptProvenEnds = 100

var provenEnds = &table[volume.ProvenEnd]{
	name:     ProvenEnds,
	key:      func(e *volume.ProvenEnd) Key { return KeyOf(e.UID, number(e.Index), string(e.Alloc)) },
	modified: func(e *volume.ProvenEnd) uint64 { return e.Index },
}

// ProvenEnds yields what is kept of a volume's claims that were ended by proof, the oldest first.
func (s *Snap) ProvenEnds(w *Watch, uid string) iter.Seq[*volume.ProvenEnd] {
	return provenEnds.scan(s, w, KeyOf(uid))
}

// AddProvenEnd adds to a volume's history and drops from it what is too old.
func (tx *Tx) AddProvenEnd(e *volume.ProvenEnd) {
	e.Index = tx.stamp.Index
	provenEnds.put(tx, e)
	all := slices.Collect(tx.ProvenEnds(nil, e.UID))
	for _, old := range all[:max(0, len(all)-keptProvenEnds)] {
		provenEnds.drop(tx, provenEnds.key(old))
	}
}

// DropProvenEnds forgets the history of a volume.
func (tx *Tx) DropProvenEnds(uid string) {
	for _, e := range slices.Collect(tx.ProvenEnds(nil, uid)) {
		provenEnds.drop(tx, provenEnds.key(e))
	}
}
