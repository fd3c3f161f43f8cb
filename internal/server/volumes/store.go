package volumes

import (
	"context"

	"berth/internal/model/volume"
	"berth/internal/server/fsm"
)

// Put stores a volume if nobody has since it was read at the index seen, 0 for a new one, and returns what is stored. A
// sealed secret is stored with it, under the name that the volume has for it.
func Put(
	ctx context.Context, p fsm.Proposer, v *volume.Volume, seen uint64, secret []byte,
) (*volume.Volume, error) {
	stored, _, err := fsm.Propose[*volume.Volume](ctx, p, &fsm.VolumePut{Volume: v, Seen: seen, Sealed: secret})
	return stored, err
}

// Forget removes the record of a volume as it was read.
func Forget(ctx context.Context, p fsm.Proposer, v *volume.Volume) (index uint64, err error) {
	_, index, err = p.Propose(ctx, &fsm.VolumeForget{ID: v.ID, Seen: v.ModifyIndex})
	return index, err
}

// Abandon removes the record of a volume whose claims nobody can use any more, for a reason. What is left of it goes on
// being released.
func Abandon(ctx context.Context, p fsm.Proposer, v *volume.Volume, reason string) (index uint64, err error) {
	_, index, err = p.Propose(ctx,
		&fsm.VolumeForget{
			ID:     v.ID,
			Seen:   v.ModifyIndex,
			Force:  true,
			Reason: reason,
		})
	return index, err
}

// PutSnapshot stores a snapshot if nobody has since it was read, with a sealed secret, and returns what is stored.
func PutSnapshot(
	ctx context.Context, p fsm.Proposer, sn *volume.Snapshot, secret []byte,
) (*volume.Snapshot, error) {
	stored, _, err := fsm.Propose[*volume.Snapshot](ctx, p,
		&fsm.SnapshotPut{Snapshot: sn, Seen: sn.ModifyIndex, Sealed: secret})
	return stored, err
}

// ForgetSnapshot removes the record of a snapshot.
func ForgetSnapshot(ctx context.Context, p fsm.Proposer, id string) error {
	_, _, err := p.Propose(ctx, &fsm.SnapshotForget{ID: id})
	return err
}
