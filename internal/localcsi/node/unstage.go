package node

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/request"
)

// NodeUnstageVolume takes the staging away. It is done when the kernel holds no mount and no loop device of the volume.
func (p *Server) NodeUnstageVolume(
	ctx context.Context, req *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	path := req.GetStagingTargetPath()
	if err := p.ValidPath("staging_target_path", path); err != nil {
		return nil, err
	}
	done := &csi.NodeUnstageVolumeResponse{}
	v, release, err := p.LockVolume(req.GetVolumeId(), "unstage")
	if err != nil {
		return done, p.nothingAt(path, err)
	}
	defer release()
	u := p.Usages.Get(v.Key)
	if u.Staging != nil && u.Staging.Path != path && p.StagedAt(v, *u.Staging) {
		return done, nil // it is staged elsewhere, not here
	}
	for at := range u.Targets {
		if p.Published(v, at) {
			return nil, request.Refuse(codes.FailedPrecondition,
				"volume %s is still published at %s: call NodeUnpublishVolume first", req.GetVolumeId(), at)
		}
	}
	if err := p.Foreigner(v, path); err != nil {
		return nil, err
	}
	if err := mount.Unmount(ctx, path); err != nil {
		return nil, datadir.Busy(err)
	}
	p.Step("unstage: unmounted")
	if err := p.releaseLoops(v, u); err != nil {
		return nil, err
	}
	p.Step("unstage: released")
	u.Staging = nil
	clear(u.Targets)
	return done, p.Usages.Release(v.Key, u)
}

// nothingAt turns "no such volume" into success where there is nothing to undo: err stays when something is mounted.
func (p *Server) nothingAt(path string, err error) error {
	if !request.Is(err, codes.NotFound) {
		return err
	}
	if is, failed := mount.IsPoint(path); failed != nil || is {
		return errors.Join(err, failed)
	}
	return nil
}
