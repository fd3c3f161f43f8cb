package fake

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A block volume is a sparse image on a loop device; the device is bound over an empty file at the target. The image
// is what survives; the loop device is made at the first publication and freed with the last.

func (p *Plugin) image(v *volume) string { return filepath.Join(p.volumeDir(v.ID), "image") }

// publishBlock puts a block device at target. Without root there is only the empty file.
func (p *Plugin) publishBlock(v *volume, target string) error {
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if err := f.Close(); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if p.cfg.Mount == MountNothing {
		return nil
	}
	dev, err := p.loopOf(v)
	if err != nil {
		return status.Errorf(codes.Internal, "loop device of %q: %s", v.ID, err.Error())
	}
	defer func() { _ = dev.Close() }()
	return p.bind(dev.Name(), target, false)
}

// loopOf finds or makes the loop device of the volume's image.
func (p *Plugin) loopOf(v *volume) (*os.File, error) {
	img, err := os.OpenFile(p.image(v), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = img.Close() }()
	if err := img.Truncate(v.Size); err != nil {
		return nil, err
	}
	if name := loopFor(p.image(v)); name != "" {
		return os.OpenFile(name, os.O_RDWR, 0)
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	for range 20 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_FD, int(img.Fd()))
		if err == nil {
			return dev, nil
		}
		err = errors.Join(err, dev.Close())
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, errors.New("no free loop device")
}

// loopFor finds the loop device whose backing file is image.
func loopFor(image string) string {
	all, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return ""
	}
	for _, f := range all {
		b, err := os.ReadFile(f)
		if err == nil && string(b) == image+"\n" {
			return "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(f)))
		}
	}
	return ""
}

// freeBlock detaches the loop device when nothing is published any more.
func (p *Plugin) freeBlock(v *volume) error {
	if p.cfg.Mount == MountNothing || len(v.Published[p.cfg.NodeID]) > 1 {
		return nil
	}
	name := loopFor(p.image(v))
	if name == "" {
		return nil
	}
	dev, err := os.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	err = unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0)
	if err = errors.Join(err, dev.Close()); err != nil {
		return status.Errorf(codes.Internal, "free %s: %s", name, err.Error())
	}
	return nil
}
