package fsm

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

func init() {
	Register[SnapshotPut]("snapshot-put", identities, "server/volumes")
	Register[SnapshotForget]("snapshot-forget", 1, "server/volumes")
}

// SnapshotPut stores a snapshot record; Seen and Sealed as in VolumePut.
type SnapshotPut struct {
	Snapshot *volume.Snapshot
	Seen     uint64
	Sealed   []byte
}

// Apply returns the stored *volume.Snapshot.
func (c *SnapshotPut) Apply(tx *state.Tx, _ Stamp) (any, error) {
	var now uint64
	old := tx.VolumeSnapshot(nil, c.Snapshot.ID)
	if old != nil {
		now = old.ModifyIndex
	}
	if err := unchanged("snapshot", c.Snapshot.ID, now, c.Seen); err != nil {
		return nil, err
	}
	if reached(tx, identities) {
		if err := c.guard(tx, old); err != nil {
			return nil, err
		}
	}
	if err := tx.Sealable(c.Sealed); err != nil {
		return nil, err
	}
	if c.Sealed != nil && c.Snapshot.Secrets != "" {
		tx.PutSecret(&state.Sealed{Name: c.Snapshot.Secrets, Data: c.Sealed})
	}
	tx.PutVolumeSnapshot(c.Snapshot)
	return c.Snapshot, nil
}

// guard refuses to cut a snapshot of what is about to go, and to delete one that something is being made from.
func (c *SnapshotPut) guard(tx *state.Tx, old *volume.Snapshot) error {
	sn := c.Snapshot
	k := volume.StagingKey{Plugin: sn.Plugin, ExternalID: sn.SourceExternalID}
	deletes := sn.Phase == volume.PhaseDeleting &&
		(old == nil || old.Phase != volume.PhaseDeleting || old.Suspended && !sn.Suspended)
	switch {
	case deletes:
		if why := suspension.Destruction(&tx.Snap, nil, k); why != nil {
			return why.Refuse("delete", `snapshot "`+sn.Name+`"`)
		}
	case old == nil, old.Suspended && !sn.Suspended:
		if why := suspension.Calls(&tx.Snap, nil, k); why != nil {
			return why.Refuse("create snapshot", sn.Name)
		}
	}
	// One that is deleted and was not known before need not have a source any more.
	if old == nil && !(deletes && reached(tx, recoveries)) {
		src := tx.VolumeOf(nil, k)
		if src == nil || src.Status.Phase == volume.PhaseDeleting {
			return fault.New(fault.Busy, "create snapshot", sn.Name,
				fmt.Sprintf("its volume %q is being deleted, or was", sn.Source))
		}
		return nil
	}
	if deletes {
		if text := holders.OfSnapshot(&tx.Snap, sn); text != "" {
			return fault.WithHint(fault.New(fault.Busy, "delete snapshot", sn.Name, text), "wait until that has ended")
		}
	}
	return nil
}

// SnapshotForget removes a snapshot's record.
type SnapshotForget struct{ ID string }

// Apply returns nil.
func (c *SnapshotForget) Apply(tx *state.Tx, _ Stamp) (any, error) {
	sn := tx.VolumeSnapshot(nil, c.ID)
	tx.DeleteVolumeSnapshot(c.ID)
	if sn != nil {
		dropSecret(tx, sn.Secrets, volume.StagingKey{Plugin: sn.Plugin, ExternalID: sn.SourceExternalID})
	}
	return nil, nil
}
