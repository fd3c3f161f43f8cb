// Package loop owns loop devices: it binds image files to them, finds them again by the inode of their backing file,
// and lets them go. It uses /dev/loop-control and the device nodes only, never sysfs, so that it works inside a task
// that sees the node's /dev and little else. Only package localcsi imports it.
package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/retry"
)

// Major is the kernel's device number class of loop devices.
const Major = 7

const (
	control   = "/dev/loop-control"
	nodes     = "/dev/loop"
	maxTries  = 200
	nodeGrace = 2 * time.Second

	sectorSize = 512
)

// attaching serialises the two steps "which one is free" and "take it" within this process, so that only strangers
// race with us.
var attaching sync.Mutex

// Options say how an image is bound.
type Options struct {
	// ReadOnly makes every write to the device fail.
	ReadOnly bool
	// Autoclear lets the kernel release the device when its last user closes it: a mount is a user, and so is the
	// file that Attach returns. A process that dies between the two leaks nothing.
	Autoclear bool
	// Label is at most 63 bytes that the kernel keeps beside the device.
	Label string
}

// Info describes a bound loop device.
type Info struct {
	Number    int
	Major     uint32 // of the file system that holds the backing file
	Minor     uint32
	Inode     uint64
	Label     string
	ReadOnly  bool
	Autoclear bool
}

// Path returns the device node of loop device n.
func Path(n int) string { return nodes + strconv.Itoa(n) }

// Attach binds image to a free loop device and returns its number and the open device. As long as the file is open
// the device stays; with Autoclear it is gone after the last close.
func Attach(ctx context.Context, image *os.File, opt Options) (int, *os.File, error) {
	if len(opt.Label) > 63 {
		return 0, nil, fmt.Errorf("attach %s: the label has %d bytes, the limit is 63", image.Name(), len(opt.Label))
	}
	attaching.Lock()
	defer attaching.Unlock()
	ctl, err := os.OpenFile(control, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, nil,
			fmt.Errorf("loop devices cannot be made here; the plugin needs the node's /dev and CAP_SYS_ADMIN: %w", err)
	}
	defer ctl.Close()
	for try := range maxTries {
		n, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return 0, nil, fmt.Errorf("ask %s for a free loop device: %w", control, err)
		}
		dev, err := openNode(ctx, n)
		if err == nil {
			err = configure(dev, image, opt)
		}
		if err == nil {
			return n, dev, nil
		}
		if dev != nil {
			dev.Close()
		}
		// EBUSY: a stranger took the device between the two calls, or probes it exclusively just now.
		if !errors.Is(err, unix.EBUSY) {
			return 0, nil, fmt.Errorf("bind %s to %s: %w", image.Name(), Path(n), err)
		}
		if !retry.Sleep(ctx, min(time.Duration(try)*time.Millisecond, 20*time.Millisecond)) {
			return 0, nil,
				fmt.Errorf("bind %s to a loop device: others kept taking the free ones: %w", image.Name(), ctx.Err())
		}
	}
	return 0, nil, fmt.Errorf("bind %s to a loop device: %d tries ended busy", image.Name(), maxTries)
}

func configure(dev, image *os.File, opt Options) error {
	// Without a sector size the kernel takes one that suits direct I/O on the file as it is now, which changes when its
	// blocks become shared: the file system inside would not be mountable any more. With one it does without direct
	// I/O.
	cfg := unix.LoopConfig{Fd: uint32(image.Fd()), Size: sectorSize}
	copy(cfg.Info.File_name[:63], opt.Label)
	if opt.ReadOnly {
		cfg.Info.Flags |= unix.LO_FLAGS_READ_ONLY
	}
	if opt.Autoclear {
		cfg.Info.Flags |= unix.LO_FLAGS_AUTOCLEAR
	}
	cfg.Info.Flags |= unix.LO_FLAGS_DIRECT_IO
	err := unix.IoctlLoopConfigure(int(dev.Fd()), &cfg)
	if errors.Is(err, unix.EINVAL) {
		// Not every file system below can do direct I/O; older kernels say so here, newer ones fall back themselves.
		cfg.Info.Flags &^= unix.LO_FLAGS_DIRECT_IO
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &cfg)
	}
	return err
}

// openNode opens a device node that may have been made a moment ago.
func openNode(ctx context.Context, n int) (*os.File, error) {
	deadline := time.Now().Add(nodeGrace)
	for {
		f, err := os.OpenFile(Path(n), os.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			return f, nil
		}
		gone := errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENXIO)
		if !gone || time.Now().After(deadline) {
			return nil, err
		}
		if !retry.Sleep(ctx, 5*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// Status reports what loop device n is bound to; ok is false when it is bound to nothing.
func Status(n int) (info Info, ok bool, err error) {
	f, err := os.OpenFile(Path(n), os.O_RDONLY|unix.O_CLOEXEC, 0)
	// A device that this process may not open is none that it has bound.
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, os.ErrPermission) {
		return Info{}, false, nil
	}
	if err != nil {
		return Info{}, false, err
	}
	defer f.Close()
	raw, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if errors.Is(err, unix.ENXIO) {
		return Info{}, false, nil
	}
	if err != nil {
		return Info{}, false, fmt.Errorf("status of %s: %w", Path(n), err)
	}
	return infoOf(n, raw), true, nil
}

func infoOf(n int, raw *unix.LoopInfo64) Info {
	label, _, _ := bytes.Cut(raw.File_name[:], []byte{0})
	return Info{
		Number:    n,
		Major:     unix.Major(raw.Device),
		Minor:     unix.Minor(raw.Device),
		Inode:     raw.Inode,
		Label:     string(label),
		ReadOnly:  raw.Flags&unix.LO_FLAGS_READ_ONLY != 0,
		Autoclear: raw.Flags&unix.LO_FLAGS_AUTOCLEAR != 0,
	}
}

// Backs reports whether the device is bound to the file that st describes.
func (i Info) Backs(st *unix.Stat_t) bool {
	return i.Inode == st.Ino && i.Major == unix.Major(st.Dev) && i.Minor == unix.Minor(st.Dev)
}

// List returns every bound loop device of the node, in the order of their numbers' text.
func List() ([]Info, error) {
	paths, err := filepath.Glob(nodes + "[0-9]*")
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, p := range paths {
		n, err := strconv.Atoi(strings.TrimPrefix(p, nodes))
		if err != nil {
			continue // a partition of a loop device
		}
		info, ok, err := Status(n)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, info)
		}
	}
	return out, nil
}

// Find returns the loop devices that are bound to the file at path.
func Find(path string) ([]Info, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	all, err := List()
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, i := range all {
		if i.Backs(&st) {
			out = append(out, i)
		}
	}
	return out, nil
}

// Clear lets loop device n go. Where somebody still has it open the kernel releases it at the last close. A device
// that is bound to nothing is fine.
func Clear(n int) error {
	f, err := os.OpenFile(Path(n), os.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENXIO) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("release %s: %w", Path(n), err)
	}
	return nil
}

// Keep opens loop device n and lets it stay bound until Clear, though an earlier Clear that found it in use has set it
// to go with its last user. It returns what the device is bound to; while the file is open that stays so.
func Keep(n int) (*os.File, Info, error) {
	f, err := os.OpenFile(Path(n), os.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, Info{}, err
	}
	raw, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err == nil && raw.Flags&unix.LO_FLAGS_AUTOCLEAR != 0 {
		raw.Flags &^= unix.LO_FLAGS_AUTOCLEAR
		err = unix.IoctlLoopSetStatus64(int(f.Fd()), raw)
	}
	if err != nil {
		return nil, Info{}, errors.Join(fmt.Errorf("keep %s: %w", Path(n), err), f.Close())
	}
	return f, infoOf(n, raw), nil
}

// Held opens loop device n if it is mounted somewhere, in whichever mount namespace; otherwise the file is nil. While
// it is open, the device stays bound to what it is bound to.
func Held(n int) (*os.File, Info, error) {
	f, err := os.OpenFile(Path(n), os.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err == nil {
		return nil, Info{}, f.Close()
	}
	if !errors.Is(err, unix.EBUSY) {
		return nil, Info{}, nil // it is gone, or not ours to open
	}
	if f, err = os.OpenFile(Path(n), os.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, Info{}, nil
	}
	raw, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil {
		return nil, Info{}, f.Close() // it went in between
	}
	return f, infoOf(n, raw), nil
}

// Size returns the size of loop device n in bytes.
func Size(n int) (int64, error) {
	f, err := os.OpenFile(Path(n), os.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	return size, errors.Join(err, f.Close())
}

// Grow makes loop device n as large as its backing file is now.
func Grow(n int) error {
	f, err := os.OpenFile(Path(n), os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("tell %s the new size of its file: %w", Path(n), err)
	}
	return nil
}
