package node

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// NodePublishVolume makes a staged volume visible at the target path.
func (p *Server) NodePublishVolume(
	ctx context.Context, req *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	path := req.GetTargetPath()
	if err := p.ValidPath("target_path", path); err != nil {
		return nil, err
	}
	a, err := request.Capability(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	if req.GetStagingTargetPath() == "" {
		return nil, request.Refuse(codes.FailedPrecondition,
			"staging_target_path is missing: call NodeStageVolume first and say where")
	}
	v, release, err := p.LockVolume(req.GetVolumeId(), "publish")
	if err != nil {
		return nil, err
	}
	defer release()
	u := p.Usages.Get(v.Key)
	if err := p.publishable(v, u, a, req); err != nil {
		return nil, err
	}
	want := store.Target{Fingerprint: a.Fingerprint(), ReadOnly: req.GetReadonly() || a.ReadOnly(), Loop: -1}
	done, err := p.alreadyPublished(v, u, path, want, a)
	if err != nil {
		return nil, err
	}
	if !done {
		if err := p.publish(ctx, v, u, path, want); err != nil {
			return nil, err
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (p *Server) publishable(
	v *store.Volume, u store.Usage, a request.Access, req *csi.NodePublishVolumeRequest,
) error {
	id, s := req.GetVolumeId(), u.Staging
	if s == nil || s.Path != req.GetStagingTargetPath() || !p.StagedAt(v, *s) {
		return request.Refuse(codes.FailedPrecondition, "volume %s is not staged at %.256q: call NodeStageVolume first",
			id, req.GetStagingTargetPath())
	}
	if s.Fingerprint != a.Fingerprint() {
		return request.Refuse(codes.FailedPrecondition, "volume %s was staged with another volume capability", id)
	}
	if s.ReadOnly && !req.GetReadonly() && !a.ReadOnly() {
		return request.Refuse(codes.FailedPrecondition,
			"volume %s is staged read-only and cannot be published for writing: ask for readonly", id)
	}
	return nil
}

// alreadyPublished answers by the table of the CSI specification for a second NodePublishVolume on a node.
func (p *Server) alreadyPublished(
	v *store.Volume, u store.Usage, path string, want store.Target, a request.Access,
) (bool, error) {
	id := p.VolumeID(v.Key)
	switch p.Look(v, path) {
	case datadir.Foreign:
		return false,
			request.Refuse(codes.FailedPrecondition, "something else is mounted at target %s: unmount it first", path)
	case datadir.Ours:
		has, recorded := u.Targets[path]
		if !recorded || has.Fingerprint != want.Fingerprint || has.ReadOnly != want.ReadOnly {
			return false,
				request.Refuse(codes.AlreadyExists,
					"volume %s is published at %s with another capability or readonly: call NodeUnpublishVolume first",
					id, path)
		}
		return true, nil
	}
	if a.Many() {
		return false, nil
	}
	for other := range u.Targets {
		if other != path && p.Published(v, other) {
			return false,
				request.Refuse(codes.FailedPrecondition,
					"volume %s is published at %s, and its access mode %s allows one publication: unpublish it "+
						"there, or use a multi-writer or multi-node mode",
					id, other, a.Mode)
		}
	}
	return false, nil
}

// publish notes the intent, binds, and undoes both if the bind failed.
func (p *Server) publish(ctx context.Context, v *store.Volume, u store.Usage, path string, want store.Target) error {
	u.Targets[path] = want
	if err := p.Usages.Put(v.Key, u); err != nil {
		return err
	}
	p.Step("publish: recorded")
	err := p.bind(ctx, v, u, path)
	if err == nil {
		p.Step("publish: bound")
		return nil
	}
	want = u.Targets[path]
	if want.Loop >= 0 {
		err = errors.Join(err, p.Release(v, want.Loop))
	}
	if clear := p.ClearTarget(ctx, path); clear != nil {
		return errors.Join(err, clear)
	}
	delete(u.Targets, path)
	return errors.Join(err, p.Usages.Release(v.Key, u))
}

func (p *Server) bind(ctx context.Context, v *store.Volume, u store.Usage, path string) error {
	want, s := u.Targets[path], u.Staging
	if err := makeTarget(path, s.FS == ""); err != nil {
		return err
	}
	p.Step("publish: target made")
	if s.FS != "" {
		return mount.Bind(s.Path, path, want.ReadOnly)
	}
	from := s.Loop
	if want.ReadOnly && !s.ReadOnly {
		// A read-only bind does not keep anybody from writing to a device node, so readers get a device of their own.
		f, err := os.OpenFile(p.Volumes.Image(v.Key), os.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		n, dev, err := loop.Attach(ctx, f, loop.Options{ReadOnly: true, Label: p.Label(v.Key)})
		if err != nil {
			return err
		}
		defer dev.Close()
		p.Step("publish: reader's device bound")
		from, want.Loop = n, n
		u.Targets[path] = want
		if err := p.Usages.Put(v.Key, u); err != nil {
			return err
		}
	}
	return mount.Bind(loop.Path(from), path, want.ReadOnly)
}

// NodeUnpublishVolume takes the volume away from the target path and removes the path.
func (p *Server) NodeUnpublishVolume(
	ctx context.Context, req *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, request.Refuse(codes.InvalidArgument, "volume_id is missing")
	}
	path := req.GetTargetPath()
	if err := p.ValidPath("target_path", path); err != nil {
		return nil, err
	}
	done := &csi.NodeUnpublishVolumeResponse{}
	v, release, err := p.LockVolume(req.GetVolumeId(), "unpublish")
	if err != nil {
		return done, p.nothingAt(path, err)
	}
	defer release()
	if err := p.Foreigner(v, path); err != nil {
		return nil, err
	}
	u := p.Usages.Get(v.Key)
	if u.Staging != nil && u.Staging.Path == path {
		return nil, request.Refuse(codes.InvalidArgument,
			"%s is where volume %s is staged, not a target: call NodeUnstageVolume for it", path, req.GetVolumeId())
	}
	if err := p.ClearTarget(ctx, path); err != nil {
		return nil, err
	}
	p.Step("unpublish: target removed")
	if t, ok := u.Targets[path]; ok && t.Loop >= 0 && p.Backs(v, t.Loop) {
		if err := p.Release(v, t.Loop); err != nil {
			return nil, err
		}
	}
	delete(u.Targets, path)
	return done, p.Usages.Release(v.Key, u)
}

// makeTarget makes the directory or, for a device, the file at which something is to be mounted.
func makeTarget(path string, file bool) error {
	st, err := os.Lstat(path)
	switch {
	case err == nil && st.IsDir() == !file && (st.IsDir() || st.Mode().IsRegular()):
		return nil
	case err == nil:
		return request.Refuse(codes.FailedPrecondition, "target %s exists and is a %s", path, kindOf(st))
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("target %s: %w", path, err)
	}
	if !file {
		err = os.Mkdir(path, 0o750)
	} else {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
			err = f.Close()
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return request.Refuse(codes.FailedPrecondition,
			"target %s: its parent directory does not exist: the caller makes it", path)
	}
	return err
}

func kindOf(st os.FileInfo) string {
	switch {
	case st.IsDir():
		return "directory"
	case st.Mode().IsRegular():
		return "file"
	}
	return "special file or symbolic link"
}
