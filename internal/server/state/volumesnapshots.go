package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// VolumeSnapshots names the table of snapshots of volumes.
const VolumeSnapshots = "volume_snapshots"

var volumeSnapshots = &table[volume.Snapshot]{
	name: VolumeSnapshots,
	key:  func(v *volume.Snapshot) Key { return KeyOf(v.ID) },
	indexes: []index[volume.Snapshot]{
		one(byVolume, func(v *volume.Snapshot) Key { return KeyOf(string(v.Plugin), v.SourceExternalID) }),
		one(byExternal, func(v *volume.Snapshot) Key {
			if v.ExternalID == "" {
				return ""
			}
			return KeyOf(string(v.Plugin), v.ExternalID)
		}),
	},
	stamp:    stamping(func(o *volume.Snapshot) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(v *volume.Snapshot) uint64 { return v.ModifyIndex },
	news:     func(tx *Tx, v *volume.Snapshot) { tx.tell(News{Snapshot: v.ID}) },
}

// VolumeSnapshot returns a snapshot by its record id, or nil.
func (s *Snap) VolumeSnapshot(w *Watch, id string) *volume.Snapshot {
	return volumeSnapshots.get(s, w, KeyOf(id))
}

// VolumeSnapshots yields all snapshots of volumes, by record id.
func (s *Snap) VolumeSnapshots(w *Watch) iter.Seq[*volume.Snapshot] {
	return volumeSnapshots.scan(s, w, "")
}

// VolumeSnapshotsOf yields the snapshots whose source is a provider's volume.
func (s *Snap) VolumeSnapshotsOf(w *Watch, k volume.StagingKey) iter.Seq[*volume.Snapshot] {
	return volumeSnapshots.find(s, w, byVolume, stagingKey(k))
}

// VolumeSnapshotsByExternalID yields the records that name the provider's snapshot.
func (s *Snap) VolumeSnapshotsByExternalID(w *Watch, id ids.Plugin, external string) iter.Seq[*volume.Snapshot] {
	return volumeSnapshots.find(s, w, byExternal, KeyOf(string(id), external))
}

// PutVolumeSnapshot stores a snapshot of a volume.
func (tx *Tx) PutVolumeSnapshot(v *volume.Snapshot) { volumeSnapshots.put(tx, v) }

// DeleteVolumeSnapshot forgets a snapshot of a volume.
func (tx *Tx) DeleteVolumeSnapshot(id string) bool { return volumeSnapshots.drop(tx, KeyOf(id)) }
