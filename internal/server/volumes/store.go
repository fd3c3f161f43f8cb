package volumes

import (
	"context"

	"berth/internal/model/volume"
	"berth/internal/server/fsm"
)

// Put stores a volume if nobody has since it was read at the index seen, 0 for a new one, and returns what is stored.
func Put(ctx context.Context, p fsm.Proposer, v *volume.Volume, seen uint64) (*volume.Volume, error) {
	stored, _, err := fsm.Propose[*volume.Volume](ctx, p, &fsm.VolumePut{Volume: v, Seen: seen})
	return stored, err
}

// Forget removes the record of a volume as it was read. Force leaves behind what nobody can use any more.
func Forget(ctx context.Context, p fsm.Proposer, v *volume.Volume, force bool) (index uint64, err error) {
	_, index, err = p.Propose(ctx, &fsm.VolumeForget{ID: v.ID, Seen: v.ModifyIndex, Force: force})
	return index, err
}

// PutSnapshot stores a snapshot if nobody has since it was read, and returns what is stored.
func PutSnapshot(ctx context.Context, p fsm.Proposer, sn *volume.Snapshot) (*volume.Snapshot, error) {
	stored, _, err := fsm.Propose[*volume.Snapshot](ctx, p, &fsm.SnapshotPut{Snapshot: sn, Seen: sn.ModifyIndex})
	return stored, err
}

// ForgetSnapshot removes the record of a snapshot.
func ForgetSnapshot(ctx context.Context, p fsm.Proposer, id string) error {
	_, _, err := p.Propose(ctx, &fsm.SnapshotForget{ID: id})
	return err
}
