package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/logkey"
	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/loop"
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
		err = errors.Join(err, p.Usages.Put(v.Key, u))
	}
	return err
}

// keepDevice makes sure that a raw device stays which an unfinished unstaging wanted released while somebody had it
// open.
func (p *Server) keepDevice(v *store.Volume, s store.Staging) error {
	if s.FS != "" {
		return nil // it goes with its last mount, and it is mounted
	}
	f, is, err := loop.Keep(s.Loop)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.still(v, is)
}

// still refuses a device that is not bound to the volume's image, or by somebody else.
func (p *Server) still(v *store.Volume, is loop.Info) error {
	var st unix.Stat_t
	if err := unix.Stat(p.Volumes.Image(v.Key), &st); err != nil {
		return err
	}
	if !is.Backs(&st) || is.Label != p.Label(v.Key) {
		return request.Refuse(codes.Unavailable, "volume %s: %s was released meanwhile; call again",
			p.VolumeID(v.Key), loop.Path(is.Number))
	}
	return nil
}

// mountAgain mounts what an equal staging before this one had mounted, and what could not be released because it is
// mounted in another mount namespace: the device is the same, so the kernel shows the one file system that it has. On
// another device it would be written by two. It reports false when nobody has it mounted.
func (p *Server) mountAgain(v *store.Volume, before, s *store.Staging, opt mount.Options) (bool, error) {
	if before == nil || s.FS == "" || before.Loop < 0 || before.Path != s.Path || before.FS != s.FS ||
		before.Fingerprint != s.Fingerprint || before.ReadOnly != s.ReadOnly || !p.Backs(v, before.Loop) {
		return false, nil
	}
	dev, is, err := loop.Held(before.Loop)
	if dev == nil {
		return false, err
	}
	defer dev.Close()
	if err := p.still(v, is); err != nil {
		return false, err
	}
	s.Loop = before.Loop
	if err := mount.Device(loop.Path(s.Loop), s.Path, v.FS, ours(v.FS, opt)); err != nil {
		return false, fmt.Errorf("stage volume %s again: %w", p.VolumeID(v.Key), err)
	}
	p.Step("stage: mounted again")
	return true, nil
}

func (p *Server) bindAndMount(ctx context.Context, v *store.Volume, s *store.Staging, opt mount.Options) error {
	path := p.Volumes.Image(v.Key)
	if err := p.DropLoops(v); err != nil {
		return err
	}
	if err := p.WholeVolume(v); err != nil {
		return request.Refuse(codes.FailedPrecondition,
			"volume %s: %w; nothing was written: put the image back from a backup, or delete the volume",
			p.VolumeID(v.Key), err)
	}
	if s.FS != "" {
		if err := p.prepareFS(ctx, v, path); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// The kernel releases a file system's device with its last mount. A raw device has no user of its own, so it
	// stays until it is unstaged; the note keeps it from being taken for a leftover.
	n, dev, err := loop.Attach(ctx, f,
		loop.Options{Autoclear: s.FS != "", ReadOnly: s.FS == "" && s.ReadOnly, Label: p.Label(v.Key)})
	if err != nil {
		return err
	}
	defer dev.Close()
	s.Loop = n
	p.Step("stage: loop device bound")
	if s.FS == "" {
		return nil
	}
	if err := mount.Device(loop.Path(n), s.Path, v.FS, ours(v.FS, opt)); err != nil {
		return fmt.Errorf("stage volume %s: %w", p.VolumeID(v.Key), err)
	}
	p.Step("stage: mounted")
	return nil
}

// ours adds the options without which a file system would not keep what it promises here.
func ours(fs string, opt mount.Options) mount.Options {
	switch {
	case fs == image.XFS:
		opt.Data = join(opt.Data, "nouuid") // a clone has the uuid of its source, and both may be mounted here
	case fs == image.Ext4 && !opt.ReadOnly() && (!strings.Contains(opt.Data, "data=") ||
		strings.Contains(opt.Data, "data=ordered")):
		// When the image cannot grow because its disk is full, ext4 forgets that data was not written, and syncs of
		// the same file that succeed after that may be lost. So the first such failure ends the file system: what was
		// synced is found when it is mounted anew.
		opt.Data = join(opt.Data, "data_err=abort")
	}
	if fs == image.Ext4 && !strings.Contains(opt.Data, "errors=") {
		// The superblock is the workload's to write where the volume may be used as a device, and could have the node
		// panic.
		opt.Data = join(opt.Data, "errors=remount-ro")
	}
	return opt
}

func join(options, more string) string {
	if options == "" {
		return more
	}
	return options + "," + more
}

// prepareFS makes sure that there is a sound file system of the right kind. Only an image in which there never was one
// and that is empty to the last byte, or whose first formatting was cut off, is ever formatted.
func (p *Server) prepareFS(ctx context.Context, v *store.Volume, path string) error {
	id := p.VolumeID(v.Key)
	held, err := p.Hold(v)
	if err != nil {
		return err
	}
	defer held.Close()
	has, err := image.Probe(path)
	if err != nil {
		return err
	}
	if !v.Formatted() && (has.FS == "" || v.Formatting) {
		return p.formatEmpty(ctx, v, held, path)
	}
	if has.FS != v.FS {
		return request.Refuse(codes.FailedPrecondition,
			"volume %s is recorded with %s and holds %s: nothing was touched", id, v.FS, has.FS)
	}
	switch {
	case v.FS == image.Ext4 && v.Size-has.Bytes >= growStep && !image.CanGrowMounted(v.FS):
		err = image.GrowImage(ctx, held, path)
	case !has.Clean:
		err = image.Check(ctx, held, path, v.FS)
	}
	if err != nil {
		return request.Refuse(codes.Internal,
			"the file system of volume %s has errors that need a person: make a copy of %s and run e2fsck on it: %w",
			id, path, err)
	}
	if v.Formatted() {
		return nil
	}
	next := *v
	next.FirstMounted = true // whoever made it
	return p.Volumes.Update(&next)
}

// growStep is how much smaller than its volume a file system may be: it need not use the last fraction of a group.
const growStep = 1 << 20

func (p *Server) formatEmpty(ctx context.Context, v *store.Volume, held *os.File, path string) error {
	id := p.VolumeID(v.Key)
	if !v.Formatting {
		empty, err := image.Empty(ctx, path)
		if err != nil {
			return err
		}
		if !empty {
			return request.Refuse(codes.FailedPrecondition,
				"volume %s holds data that is neither ext4 nor xfs: it is not formatted over; use it as a block "+
					"device, or delete it", id)
		}
	}
	next := *v
	next.Formatting = true
	if err := p.Volumes.Update(&next); err != nil {
		return err
	}
	p.Step("stage: formatting recorded")
	// Both programs overwrite what a cut-off run left.
	if err := image.Format(ctx, held, path, v.FS, v.Size); err != nil {
		return err
	}
	p.Step("stage: formatted")
	done := *v
	done.Formatting, done.FirstMounted = false, true
	return p.Volumes.Update(&done)
}

// finishStaging does what may have been left undone by an earlier call: growth and group ownership.
func (p *Server) finishStaging(ctx context.Context, v *store.Volume, s store.Staging, a request.Access) error {
	if s.FS == "" || s.ReadOnly {
		return nil
	}
	// Where a mounted file system cannot grow it did so before it was mounted.
	if image.CanGrowMounted(s.FS) {
		if err := p.growFS(ctx, v, s); err != nil {
			return err
		}
	}
	err := giveToGroup(s.Path, a.Group)
	if errors.Is(err, os.ErrPermission) {
		return request.Refuse(codes.FailedPrecondition,
			"volume %s: the plugin's process needs CAP_CHOWN and CAP_FOWNER for volume_mount_group: %w",
			p.VolumeID(v.Key), err)
	}
	return err
}

// growFS lets the file system fill its volume, where it is visibly smaller.
func (p *Server) growFS(ctx context.Context, v *store.Volume, s store.Staging) error {
	n, err := p.DeviceOf(s)
	if err != nil {
		return err
	}
	size, err := loop.Size(n)
	if err == nil && size < v.Size {
		err = loop.Grow(n)
	}
	if err != nil {
		return err
	}
	has, err := image.Probe(loop.Path(n))
	if err != nil {
		return err
	}
	if v.Size-has.Bytes < growStep {
		return nil
	}
	if !image.CanGrowMounted(v.FS) {
		return request.Refuse(codes.FailedPrecondition,
			"volume %s: the plugin's process lacks CAP_SYS_RESOURCE, without which %s cannot grow while it is "+
				"mounted; it grows when it is staged next",
			p.VolumeID(v.Key), v.FS)
	}
	p.Log.Info("growing the file system", logkey.Volume, p.VolumeID(v.Key), "from", has.Bytes, "to", v.Size)
	return image.GrowMounted(ctx, v.FS, loop.Path(n), s.Path)
}

// giveToGroup lets a group write in the root directory of the volume and own what is made there. It is one change
// whatever the number of files: contents keep the owners that workloads gave them.
func giveToGroup(dir string, gid int) error {
	if gid < 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	const bits = unix.S_ISGID | unix.S_IRGRP | unix.S_IWGRP | unix.S_IXGRP
	if int(st.Gid) != gid {
		if err := os.Chown(dir, -1, gid); err != nil {
			return err
		}
	}
	if st.Mode&bits == bits {
		return nil
	}
	if err := unix.Chmod(dir, st.Mode&0o7777|bits); err != nil {
		return &os.PathError{Op: "chmod", Path: dir, Err: err}
	}
	return nil
}

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
	return done, p.Usages.Put(v.Key, u)
}

// releaseLoops releases the recorded devices of a volume.
func (p *Server) releaseLoops(v *store.Volume, u store.Usage) error {
	if u.Staging == nil || u.Staging.Loop < 0 {
		return p.DropLoops(v)
	}
	n := u.Staging.Loop
	if !p.Backs(v, n) {
		return nil
	}
	if u.Staging.FS == "" {
		return p.Release(v, n)
	}
	return p.AwaitRelease(v, n)
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
