package fsm

import (
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/state"
)

// dropSecret forgets a secret that nothing needs any more: no volume or snapshot has it, no attachment needs it to be
// undone, and no forgotten volume has work left.
func dropSecret(tx *state.Tx, name string, k volume.StagingKey) {
	if name == "" {
		return
	}
	for v := range tx.VolumesByExternalID(nil, k.Plugin, k.ExternalID) {
		if v.Spec.Secrets == name {
			return
		}
	}
	for sn := range tx.VolumeSnapshotsOf(nil, k) {
		if sn.Secrets == name {
			return
		}
	}
	for a := range tx.AttachmentsOf(nil, k) {
		if a.Secrets == name {
			return
		}
	}
	if t := tx.Tombstone(nil, k); t != nil && t.Secrets == name {
		return
	}
	tx.DeleteSecret(name)
}

// buryIfDone drops what stayed of a volume that was forgotten by force once nothing of it is left.
func buryIfDone(tx *state.Tx, k volume.StagingKey) {
	t := tx.Tombstone(nil, k)
	if t == nil || holders.Left(&tx.Snap, k) {
		return
	}
	tx.DeleteTombstone(k)
	tx.DropProvenEnds(t.UID)
	dropSecret(tx, t.Secrets, k)
}
