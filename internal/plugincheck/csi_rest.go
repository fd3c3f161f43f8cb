package plugincheck

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/retry"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// forgetsNothing has another process of the plugin take down what one has made.
func (s *storage) forgetsNothing(ctx context.Context) (string, error) {
	if err := s.needWay(); err != nil {
		return "", err
	}
	w, err := s.newWay(ctx, s.vol, "forgets", false)
	if err != nil {
		return "", err
	}
	if err := w.walk(ctx, w.up()); err != nil {
		return "", err
	}
	for _, st := range w.down() {
		if err := s.kill(); err != nil {
			return "", err
		}
		if err := w.make(ctx, st); err != nil {
			return "", fmt.Errorf("by another process: %w", err)
		}
	}
	return "", nil
}

// mountsAgain takes the mounts away behind the plugin's back, as a restart of the machine does.
func (s *storage) mountsAgain(ctx context.Context) (string, error) {
	if err := s.needWay(); err != nil {
		return "", err
	}
	w, err := s.newWay(ctx, s.vol, "again", false)
	if err != nil {
		return "", err
	}
	if err := w.walk(ctx, w.up()); err != nil {
		return "", err
	}
	mounts, err := s.mounts(s.dir)
	if err != nil {
		return "", err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(mounts[i].Path, unix.MNT_DETACH); err != nil {
			return "", fmt.Errorf("unmount %s: %w", mounts[i].Path, err)
		}
	}
	if err := s.kill(); err != nil {
		return "", err
	}
	if err := w.walk(ctx, w.up()); err != nil {
		return "", err
	}
	return "", errors.Join(w.read(), w.walk(ctx, w.down()))
}

// polls bounds how often it is asked whether a snapshot is ready.
const polls = 100

func (s *storage) snapshots(ctx context.Context) (string, error) {
	if err := s.needVolume(); err != nil {
		return "", err
	}
	if err := errors.Join(s.needCreate(), need(s.inst.Controller.Has(csi.CapSnapshot), "snapshots")); err != nil {
		return "", err
	}
	var snap csi.Snapshot
	take := func(ctx context.Context, c *csi.Client) (err error) {
		before := snap.ID
		snap, err = c.CreateSnapshot(ctx, csi.CreateSnapshotRequest{
			Name:           s.name("snapshot"),
			SourceVolumeID: s.vol.ID,
			Secrets:        s.secrets(),
		})
		if err == nil && before != "" && before != snap.ID {
			return broken("the same name gave snapshot %q, and then %q", before, snap.ID)
		}
		return err
	}
	for n := 0; n < 2 || !snap.Ready; n++ {
		if n == polls {
			return "", broken("snapshot %q is not ready after %d questions", snap.ID, polls)
		}
		if err := s.until(ctx, "snapshot", take); err != nil {
			return "", err
		}
		if !snap.Ready {
			pause.Sleep(ctx, 3)
		}
	}
	restored, err := s.restored(ctx, snap)
	for range 2 { // the second one finds nothing, which is as good
		err = errors.Join(err, s.until(ctx, "delete the snapshot", func(ctx context.Context, c *csi.Client) error {
			return c.DeleteSnapshot(ctx, csi.DeleteSnapshotRequest{SnapshotID: snap.ID, Secrets: s.secrets()})
		}))
	}
	return restored, err
}

// restored makes a volume of a snapshot, looks at what is in it, and deletes it.
func (s *storage) restored(ctx context.Context, snap csi.Snapshot) (string, error) {
	r := s.wanted(s.name("restored"), max(s.asked.Volume.Bytes, snap.Size, s.vol.Capacity))
	r.Source = csi.ContentSource{SnapshotID: snap.ID}
	var vol csi.Volume
	if err := s.until(ctx, "create of a snapshot", s.creation(r, &vol)); err != nil {
		return "", err
	}
	s.more = append(s.more, vol.ID)
	found := "a volume was made of it"
	if s.needWay() == nil {
		if err := s.through(ctx, vol, "restored", false, (*way).read); err != nil {
			return "", err
		}
		found += ", with what was written"
	}
	err := s.until(ctx, "delete", s.deletion(vol.ID))
	if err == nil {
		s.more = s.more[:len(s.more)-1]
	}
	return found, err
}

func (s *storage) grows(ctx context.Context) (string, error) {
	if err := s.needVolume(); err != nil {
		return "", err
	}
	if err := need(s.inst.Controller.Has(csi.CapExpand), "to expand volumes"); err != nil {
		return "", err
	}
	use := s.use(volume.SingleNodeWriter)
	want := 2 * max(s.asked.Volume.Bytes, s.vol.Capacity)
	var got csi.ExpandAnswer
	for range 2 {
		before := got
		if err := s.until(ctx, "expand", func(ctx context.Context, c *csi.Client) (err error) {
			got, err = c.ExpandVolume(ctx, csi.ExpandVolumeRequest{
				VolumeID:   s.vol.ID,
				Capacity:   csi.CapacityRange{Required: want},
				Capability: use,
				Secrets:    s.secrets(),
			})
			return err
		}); err != nil {
			return "", err
		}
		if got.Capacity < want || before.Capacity != 0 && before.Capacity != got.Capacity {
			return "", broken("%d bytes are due; it answers %d, and answered %d before", want, got.Capacity,
				before.Capacity)
		}
	}
	s.vol.Capacity = got.Capacity
	if s.needWay() != nil {
		return fmt.Sprintf("%d bytes", got.Capacity), nil
	}
	return fmt.Sprintf("%d bytes", got.Capacity), s.through(ctx, s.vol, "grows", false, func(w *way) error {
		if got.NodeExpansionRequired {
			for range 2 {
				if err := s.until(ctx, "expand on the node", func(ctx context.Context, c *csi.Client) error {
					r := csi.NodeExpandRequest{
						VolumeID:   w.vol.ID,
						VolumePath: w.target,
						Capacity:   csi.CapacityRange{Required: want},
						Capability: use,
					}
					if s.inst.Stages() {
						r.StagingPath = w.staging
					}
					_, err := c.NodeExpand(ctx, r)
					return err
				}); err != nil {
					return err
				}
			}
		}
		return w.read()
	})
}

func (s *storage) deletes(ctx context.Context) (string, error) {
	if err := errors.Join(s.needVolume(), s.needCreate()); err != nil {
		return "", err
	}
	id := s.vol.ID
	for range 2 {
		if err := s.until(ctx, "delete", s.deletion(id)); err != nil {
			return "", err
		}
	}
	if err := s.kill(); err != nil {
		return "", err
	}
	if err := s.until(ctx, "delete after it was killed", s.deletion(id)); err != nil {
		return "", err
	}
	s.vol = csi.Volume{}
	c, err := s.connected(ctx)
	if err != nil {
		return "", err
	}
	if s.inst.Controller.Has(csi.CapListVolumes) {
		if _, there, err := s.listed(ctx, c, id); err != nil || there {
			return "", errors.Join(err, broken("it lists volume %q, which it says is deleted", id))
		}
	}
	_, err = c.ValidateVolume(ctx, csi.ValidateVolumeRequest{
		VolumeID:     id,
		Capabilities: []csi.VolumeCapability{s.use(volume.SingleNodeWriter)},
		Secrets:      s.secrets(),
	})
	if csi.CodeOf(err) != codes.NotFound {
		return "", broken("of the volume that it says is deleted NotFound is due, and it answers: %v", orOK(err))
	}
	return "", nil
}

// settles is how long mounts that are being taken down may take to be gone.
const settles = 20

func (s *storage) leavesNothing(ctx context.Context) (string, error) {
	for n := 0; ; n++ {
		left, err := s.mounts(s.dir)
		switch {
		case err != nil:
			return "", err
		case len(left) == 0:
			return "", nil
		case n == settles:
			return "", broken("%s is still mounted, and %d more are", left[0].Path, len(left)-1)
		}
		retry.Sleep(ctx, pause.Min)
	}
}
