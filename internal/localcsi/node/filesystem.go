package node

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/logkey"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

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

// prepareDevice makes sure that nothing writes to the image but whoever gets the device: no program that a killed
// plugin had started, and no later formatting because one was cut off. What that had written stays.
func (p *Server) prepareDevice(v *store.Volume) error {
	held, err := p.Hold(v)
	if err != nil {
		return err
	}
	defer held.Close()
	if !v.Formatting {
		return nil
	}
	next := *v
	next.Formatting = false
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
