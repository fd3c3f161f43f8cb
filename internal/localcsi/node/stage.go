package node

import (
	"context"
	"errors"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// NodeStageVolume binds the volume to a loop device and mounts its file system at the staging path. A volume that is
// used as a device only gets the loop device.
func (p *Server) NodeStageVolume(
	ctx context.Context, req *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	path := req.GetStagingTargetPath()
	if err := p.ValidPath("staging_target_path", path); err != nil {
		return nil, err
	}
	a, err := request.Capability(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	v, release, err := p.LockVolume(req.GetVolumeId(), "stage")
	if err != nil {
		return nil, err
	}
	defer release()
	opt, err := p.stageable(v, a)
	if err != nil {
		return nil, err
	}
	s := store.Staging{Path: path, Fingerprint: a.Fingerprint(), ReadOnly: opt.ReadOnly(), Loop: -1}
	if !a.Block {
		s.FS = v.FS
	}
	u := p.Usages.Get(v.Key)
	done, err := p.alreadyStaged(v, u, s)
	if err != nil {
		return nil, err
	}
	if done {
		s = *u.Staging
		if err := p.keepDevice(v, s); err != nil {
			return nil, err
		}
	} else if err := p.stage(ctx, v, u, &s, opt); err != nil {
		return nil, err
	}
	if err := p.finishStaging(ctx, v, s, a); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// stageable checks that the volume may be staged so and returns the mount options.
func (p *Server) stageable(v *store.Volume, a request.Access) (mount.Options, error) {
	id := p.VolumeID(v.Key)
	if why := a.Unfit(v); why != "" {
		return mount.Options{}, request.Refuse(codes.FailedPrecondition, "volume %s cannot be staged so: %s", id, why)
	}
	if p.Attach && v.Attachment == nil {
		return mount.Options{},
			request.Refuse(codes.FailedPrecondition,
				"volume %s is not attached to node %q: call ControllerPublishVolume first", id, p.Node)
	}
	var opt mount.Options
	if !a.Block {
		var err error
		if opt, err = a.Options(v.FS); err != nil {
			return opt, err
		}
	}
	if v.Attachment != nil && v.Attachment.ReadOnly {
		opt.Bits |= unix.MS_RDONLY
	}
	return opt, nil
}

// alreadyStaged compares a wanted staging with what is there.
func (p *Server) alreadyStaged(v *store.Volume, u store.Usage, want store.Staging) (bool, error) {
	id, has := p.VolumeID(v.Key), u.Staging
	if has != nil && p.StagedAt(v, *has) {
		switch {
		case has.Path != want.Path:
			return false,
				request.Refuse(codes.FailedPrecondition,
					"volume %s is staged at %s: a volume has one staging path, call NodeUnstageVolume first", id,
					has.Path)
		case has.Fingerprint != want.Fingerprint || has.ReadOnly != want.ReadOnly:
			return false,
				request.Refuse(codes.AlreadyExists,
					"volume %s is staged at %s with another capability: call NodeUnstageVolume first", id, has.Path)
		}
		return true, nil
	}
	if p.Look(v, want.Path) != datadir.Absent {
		return false,
			request.Refuse(codes.FailedPrecondition,
				"something else is mounted at the staging path %s: unmount it first", want.Path)
	}
	st, err := os.Lstat(want.Path)
	if err != nil || !st.IsDir() {
		return false,
			request.Refuse(codes.FailedPrecondition,
				"staging path %s is not an existing directory: the caller makes it", want.Path)
	}
	return false, nil
}

// stage notes the intent, does the work, and takes the note back if the work failed.
func (p *Server) stage(ctx context.Context, v *store.Volume, u store.Usage, s *store.Staging, opt mount.Options) error {
	limit := p.AttachLimit
	if p.Attach {
		limit = 0 // it was counted when it was attached
	}
	before := u.Staging
	u.Staging = s
	fits, err := p.Usages.Stage(v.Key, u, limit)
	if err != nil {
		return err
	}
	if !fits {
		return request.Refuse(codes.ResourceExhausted,
			"node %q has %d volumes staged, as many as it takes: unstage one first", p.Node, limit)
	}
	p.Step("stage: recorded")
	again, err := p.mountAgain(v, before, s, opt)
	if err == nil && !again {
		err = p.bindAndMount(ctx, v, s, opt)
	}
	if err == nil {
		err = p.Usages.Put(v.Key, u)
	}
	if err != nil && s.FS == "" && s.Loop >= 0 {
		err = errors.Join(err, p.Release(v, s.Loop))
	}
	if err != nil && !p.StagedAt(v, *s) {
		if u.Staging = before; before != nil && !p.Backs(v, before.Loop) {
			u.Staging = nil
		}
		err = errors.Join(err, p.Usages.Release(v.Key, u))
	}
	return err
}
