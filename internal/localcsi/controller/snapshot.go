package controller

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/internal/base/sizes"
	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

const freezeHint = "stop the writers, or keep the plugin's data directory on a file system with reflinks (xfs, " +
	"btrfs), where a copy takes no time"

// longerHint is the way out where it is the time that does not suffice.
const longerHint = freezeHint + "; or have the plugin stop them for longer (--freeze-limit)"

// CreateSnapshot makes an independent copy of a volume at one moment.
func (p *Server) CreateSnapshot(
	ctx context.Context, req *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	if err := request.Name(req.GetName()); err != nil {
		return nil, err
	}
	if req.GetSourceVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "source_volume_id is missing")
	}
	for k := range req.GetParameters() {
		return nil, request.Refuse(codes.InvalidArgument, "parameter %.64q is not known: snapshots have none", k)
	}
	if err := p.Reachable(req.GetAccessibilityRequirements(), "create snapshot"); err != nil {
		return nil, err
	}
	release, err := p.Locks.Take("snapshot name "+req.GetName(), "create snapshot")
	if err != nil {
		return nil, err
	}
	defer release()
	if s, ok := p.Snapshots.Named(req.GetName()); ok {
		if s.VolumeID != req.GetSourceVolumeId() {
			return nil, request.Refuse(codes.AlreadyExists,
				"a snapshot of that name exists as %s, of volume %s: use another name", p.SnapshotID(s.Key), s.VolumeID)
		}
		return &csi.CreateSnapshotResponse{Snapshot: p.describeSnapshot(s)}, nil
	}
	v, releaseVolume, err := p.LockVolume(req.GetSourceVolumeId(), "snapshot")
	if err != nil {
		return nil, err
	}
	defer releaseVolume()
	s := &store.Snapshot{
		Schema:   store.Schema,
		Key:      store.NewKey(),
		Name:     req.GetName(),
		VolumeID: req.GetSourceVolumeId(),
		Size:     v.Size,
		FS:       v.FS,
		Mount:    v.Mount,
		Block:    v.Block,
	}
	if err := p.makeSnapshot(ctx, s, v); err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: p.describeSnapshot(s)}, nil
}

func (p *Server) makeSnapshot(ctx context.Context, s *store.Snapshot, v *store.Volume) (err error) {
	from := &origin{path: p.Volumes.Image(v.Key), volume: v}
	takes, err := image.Allocated(from.path)
	if err != nil {
		return err
	}
	unreserve, err := p.Reserve(takes, "the snapshot")
	if err != nil {
		return err
	}
	defer unreserve()
	made := filepath.Join(p.Dir(datadir.MakingDir), s.Key)
	if err := os.Mkdir(made, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.RemoveFlat(made))
		}
	}()
	p.Step("snapshot: directory made")
	path := filepath.Join(made, store.ImageFile)
	s.Created = time.Now().UTC()
	if s.Shared, err = p.fill(ctx, path, from); err != nil {
		return err
	}
	if s.Stored, err = image.Allocated(path); err != nil {
		return err
	}
	if err := p.Snapshots.Add(made, s); err != nil {
		return err
	}
	p.Step("snapshot: added")
	return nil
}

// copyVolume copies the image of a volume whose lock is held, at one moment if it is in use: a mounted file system is
// frozen meanwhile, a device is copied in use only where the copy is one step.
func (p *Server) copyVolume(ctx context.Context, v *store.Volume, dst, src *os.File) (shared bool, err error) {
	u := p.Usages.Get(v.Key)
	s := u.Staging
	switch {
	case s == nil || !p.StagedAt(v, *s):
		return p.copyUnused(ctx, v, dst, src)
	case s.ReadOnly:
		return p.Copier.Copy(ctx, dst, src)
	case s.FS == "":
		return p.copyDevice(ctx, v, u, dst, src)
	}
	takes, err := image.Allocated(src.Name())
	if err != nil {
		return false, err
	}
	if expect := p.Copier.Expect(takes); expect > p.FreezeLimit {
		return false, request.Refuse(codes.FailedPrecondition,
			"volume %s is in use and copying its %s would stop its writers for about %s, more than the %s allowed: %s",
			p.VolumeID(v.Key), sizes.Human(takes), expect.Round(time.Second), p.FreezeLimit, longerHint)
	}
	return p.copyFrozen(ctx, v, s.Path, dst, src)
}

// copyUnused makes sure that nobody has the volume in use unknown to us, as a mount in another mount namespace for one.
func (p *Server) copyUnused(ctx context.Context, v *store.Volume, dst, src *os.File) (shared bool, err error) {
	if err := p.DropLoops(v); err != nil {
		return false, err
	}
	held, err := p.Hold(v)
	if err != nil {
		return false, err
	}
	defer held.Close()
	return p.Copier.Copy(ctx, dst, src)
}

// copyFrozen stops the writers of a mounted file system for the time of the copy. A marker tells the next start what
// may still be frozen.
func (p *Server) copyFrozen(
	ctx context.Context, v *store.Volume, mounted string, dst, src *os.File,
) (shared bool, err error) {
	marker := filepath.Join(p.Dir(datadir.FrozenDir), v.Key)
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return false, err
	}
	err = image.WhileFrozen(ctx, mounted, p.FreezeLimit, func(ctx context.Context) error {
		p.Step("copy: frozen")
		var err error
		shared, err = p.Copier.Copy(ctx, dst, src)
		p.Step("copy: copied while frozen")
		return err
	})
	switch {
	case errors.Is(err, unix.EBUSY):
		err = request.Refuse(codes.FailedPrecondition, "volume %s is frozen by somebody else: thaw %s first: %w",
			p.VolumeID(v.Key), mounted, err)
	case errors.Is(err, image.ErrTooLong):
		err = request.Refuse(codes.FailedPrecondition,
			"volume %s is in use and its copy was not done within the %s that its writers may be stopped; nothing "+
				"was kept: %s: %w",
			p.VolumeID(v.Key), p.FreezeLimit, longerHint, err)
	}
	if errors.Is(err, image.ErrStillFrozen) {
		return shared, err // the marker stays: the next start tries again
	}
	return shared, errors.Join(err, os.Remove(marker))
}

func (p *Server) copyDevice(ctx context.Context, v *store.Volume, u store.Usage, dst, src *os.File) (bool, error) {
	inUse := false
	for path := range u.Targets {
		inUse = inUse || p.Published(v, path)
	}
	if inUse && !p.Copier.Reflink {
		return false,
			request.Refuse(codes.FailedPrecondition, "volume %s is a block device in use, which cannot be frozen: %s",
				p.VolumeID(v.Key), freezeHint)
	}
	dev, err := os.Open(loop.Path(u.Staging.Loop))
	if err != nil {
		return false, err
	}
	// What was written to the device but not yet to the image.
	if err := errors.Join(unix.Fsync(int(dev.Fd())), dev.Close()); err != nil {
		return false, err
	}
	return p.Copier.Copy(ctx, dst, src)
}

// DeleteSnapshot removes a snapshot; volumes that were made from it stay.
func (p *Server) DeleteSnapshot(
	_ context.Context, req *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	id := req.GetSnapshotId()
	if id == "" {
		return nil, request.Refuse(codes.InvalidArgument, "snapshot_id is missing")
	}
	key, kind := request.ParseID(request.SnapshotPrefix, id, p.Node)
	switch kind {
	case request.Elsewhere:
		return nil, p.NotMine("delete", "snapshot", id)
	case request.Malformed:
		return &csi.DeleteSnapshotResponse{}, nil
	}
	release, err := p.Locks.Take(key, "delete of snapshot "+id)
	if err != nil {
		return nil, err
	}
	defer release()
	if _, ok := p.Snapshots.Get(key); !ok {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	return &csi.DeleteSnapshotResponse{}, p.Snapshots.Remove(key)
}

func (p *Server) describeSnapshot(s *store.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId:     p.SnapshotID(s.Key),
		SourceVolumeId: s.VolumeID,
		SizeBytes:      s.Size,
		CreationTime:   timestamppb.New(s.Created),
		ReadyToUse:     true,
	}
}
