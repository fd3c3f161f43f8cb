// Package mount owns what the bundled plugin does to the mount table: it mounts a device, binds a mount to a target,
// takes both away again, and answers where a device is mounted. It believes the kernel's table and nothing else, and
// it never removes anything beneath a mount point. Only package localcsi imports it.
package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const busyGrace = time.Second

// Device mounts the block device at dir. Volumes never bring device nodes or set-user-id programs to the host.
func Device(device, dir, fsType string, opt Options) error {
	bits := opt.Bits | unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount(device, dir, fsType, bits, opt.Data); err != nil {
		return fmt.Errorf("mount %s as %s at %s: %w", device, fsType, dir, err)
	}
	return nil
}

// Bind makes source (a mounted directory or a device node) visible at target. A read-only bind is read-only from its
// first moment, and the bind has its own peer group: what a workload mounts inside does not spread to the source.
func Bind(source, target string, readOnly bool) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source,
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOSYS) {
		return bindInTwoSteps(source, target, readOnly)
	}
	if err != nil {
		return fmt.Errorf("clone the mount of %s: %w", source, err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	if readOnly {
		attr.Attr_set = unix.MOUNT_ATTR_RDONLY
	}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr)
	if errors.Is(err, unix.ENOSYS) {
		return bindInTwoSteps(source, target, readOnly)
	}
	if err != nil {
		return fmt.Errorf("set the attributes of the bind of %s: %w", source, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("bind %s at %s: %w", source, target, err)
	}
	return nil
}

// bindInTwoSteps serves kernels before 5.12.
func bindInTwoSteps(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s at %s: %w", source, target, err)
	}
	if !readOnly {
		return nil
	}
	flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV)
	if err := unix.Mount("", target, "", flags, ""); err != nil {
		err = fmt.Errorf("make the bind at %s read-only: %w", target, err)
		return errors.Join(err, unix.Unmount(target, unix.UMOUNT_NOFOLLOW))
	}
	return nil
}

// IsPoint reports whether something is mounted at path. A path that does not exist is no mount point.
func IsPoint(path string) (bool, error) {
	is, err := mountinfo.Mounted(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return is, err
}

// Unmount takes away everything that is mounted at path, top first. A mount that stays busy for a second is an error
// that wraps unix.EBUSY; nothing is ever detached lazily.
func Unmount(ctx context.Context, path string) error {
	deadline := time.Now().Add(busyGrace)
	for {
		is, err := IsPoint(path)
		if err != nil {
			return fmt.Errorf("look for a mount at %s: %w", path, err)
		}
		if !is {
			return nil
		}
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if err == nil {
			continue
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Number identifies a device in the mount table.
type Number struct{ Major, Minor uint32 }

// At returns the device number of the file system at path, without following a symbolic link.
func At(path string) (Number, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return Number{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return Number{unix.Major(st.Dev), unix.Minor(st.Dev)}, nil
}

// Node returns the number of the block device whose node is at path; ok is false when path is no block device.
func Node(path string) (n Number, ok bool, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return Number{}, false, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Number{}, false, nil
	}
	return Number{unix.Major(st.Rdev), unix.Minor(st.Rdev)}, true, nil
}

// Point is a place where something is mounted.
type Point struct {
	Path     string
	ReadOnly bool
	Device   Number
}

// Table is one reading of the mount table, by loop device number.
type Table map[int][]Point

// LoopTable reads where loop devices of the given major number are mounted: as file systems, or as device nodes that
// are bound onto files.
func LoopTable(major uint32) (Table, error) {
	entries, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	out := Table{}
	for _, e := range entries {
		p := Point{
			Path:     e.Mountpoint,
			ReadOnly: hasOption(e.Options, "ro"),
			Device:   Number{uint32(e.Major), uint32(e.Minor)},
		}
		if p.Device.Major == major {
			out[e.Minor] = append(out[e.Minor], p)
			continue
		}
		if n, ok := boundNode(e.FSType, e.Root); ok {
			out[n] = append(out[n], p)
		}
	}
	return out, nil
}

// boundNode recognises the bind of a loop device's node: the root of such a mount is the node's path in devtmpfs.
func boundNode(fsType, root string) (int, bool) {
	const prefix = "/loop"
	if fsType != "devtmpfs" && fsType != "tmpfs" || len(root) <= len(prefix) || root[:len(prefix)] != prefix {
		return 0, false
	}
	n, err := strconv.Atoi(root[len(prefix):])
	return n, err == nil
}

func hasOption(options, want string) bool {
	for len(options) > 0 {
		i := 0
		for i < len(options) && options[i] != ',' {
			i++
		}
		if options[:i] == want {
			return true
		}
		options = options[min(i+1, len(options)):]
	}
	return false
}
