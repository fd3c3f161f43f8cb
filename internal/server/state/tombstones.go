package state

import (
	"iter"

	"berth/internal/model/volume"
)

// Tombstones names the table of volumes that were forgotten by force.
const Tombstones = "tombstones"

var tombstones = &table[volume.Tombstone]{
	name:     Tombstones,
	key:      func(t *volume.Tombstone) Key { return stagingKey(t.StagingKey) },
	stamp:    func(now, _ *volume.Tombstone, index uint64) { now.CreateIndex = index },
	modified: func(t *volume.Tombstone) uint64 { return t.CreateIndex },
	news:     func(tx *Tx, t *volume.Tombstone) { tx.tell(News{Staging: t.StagingKey}) },
}

// Tombstone returns what stays of a provider's volume that was forgotten by force, or nil.
func (s *Snap) Tombstone(w *Watch, k volume.StagingKey) *volume.Tombstone {
	return tombstones.get(s, w, stagingKey(k))
}

// Tombstones yields what stays of all volumes that were forgotten by force, by plugin and external id.
func (s *Snap) Tombstones(w *Watch) iter.Seq[*volume.Tombstone] { return tombstones.scan(s, w, "") }

// PutTombstone stores what stays of a volume.
func (tx *Tx) PutTombstone(t *volume.Tombstone) { tombstones.put(tx, t) }

// DeleteTombstone forgets a volume for good.
func (tx *Tx) DeleteTombstone(k volume.StagingKey) bool { return tombstones.drop(tx, stagingKey(k)) }
