package controller

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

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
	from, err := p.lockOrigin(req.GetSourceVolumeId(), "snapshot")
	if err != nil {
		return nil, err
	}
	defer from.unlock()
	v := from.volume
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
	if err := p.makeSnapshot(ctx, s, from); err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: p.describeSnapshot(s)}, nil
}

func (p *Server) makeSnapshot(ctx context.Context, s *store.Snapshot, from *origin) (err error) {
	takes, err := image.Allocated(from.path)
	if err != nil {
		return err
	}
	made := filepath.Join(p.Dir(datadir.MakingDir), s.Key)
	path := filepath.Join(made, store.ImageFile)
	unreserve, err := p.Reserve(takes, "the snapshot", path)
	if err != nil {
		return err
	}
	defer func() { unreserve() }()
	from.grow = func(now int64) error {
		if now <= takes {
			return nil
		}
		unreserve()
		takes = now
		var err error
		if unreserve, err = p.Reserve(takes, "the snapshot", path); err != nil {
			unreserve = func() {}
		}
		return err
	}
	if err := os.Mkdir(made, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.RemoveFlat(made))
		}
	}()
	p.Step("snapshot: directory made")
	s.Created = time.Now().UTC()
	if s.Shared, err = p.fill(ctx, path, from); err != nil {
		return err
	}
	if !from.asOf.IsZero() {
		s.Created = from.asOf.UTC()
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
