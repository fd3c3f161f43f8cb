// Package ownership owns giving a mounted volume to the user of the tasks that are about to start on it. The hook of an
// alloc's volumes imports it.
package ownership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
)

// Want is whom a volume shall belong to.
type Want struct {
	UID, GID int // -1: as it is
	Mode     int // of its root; -1: as it is
	Policy   volume.OwnershipPolicy
}

// has reports that something belongs to whom it shall.
func (w *Want) has(uid, gid uint32) bool {
	return (w.UID < 0 || int(uid) == w.UID) && (w.GID < 0 || int(gid) == w.GID)
}

// lostAndFound is made with file systems of the ext family; it is fsck's, and no content.
const lostAndFound = "lost+found"

// Give gives what is mounted at dir to an owner, as far as the policy says. It may be cut off at any moment and called
// again: the root is given last, after all else is on disk, so that a root that is right says that the rest is. It
// returns when the root is on disk too: what starts then finds it right on every mount that follows.
// begin is called before a walk through all files begins.
//
// Nothing is done through a symbolic link, and nothing in another file system that is mounted in the volume.
func Give(ctx context.Context, dir string, want Want, begin func()) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", dir)
	}
	root := os.NewFile(uintptr(fd), dir)
	defer func() { _ = root.Close() }() // opened for reading
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault.Wrap(err, fault.Internal, "look at", dir)
	}
	right := want.has(st.Uid, st.Gid)
	switch {
	case want.Policy == volume.OwnNothing:
		return nil
	case want.Policy == volume.OwnFresh:
		if right {
			return written(fd, dir) // by an earlier try, perhaps, that could not have it written
		}
		if st.Uid != 0 || st.Gid != 0 {
			return nil
		}
		if empty, err := untouched(root); err != nil || !empty {
			return fault.Wrap(err, fault.Internal, "read", dir)
		}
	case want.Policy == volume.OwnAllIfRootDiffers && !right:
		begin()
		if err := giveAll(ctx, root, want); err != nil {
			return err
		}
	}
	if err := giveRoot(fd, dir, &st, want); err != nil {
		return err
	}
	return written(fd, dir)
}

// written waits until whom a directory belongs to is on its disk. Where the file system cannot be asked for that, as
// some in user space, what it has taken is all that can be known.
func written(fd int, dir string) error {
	err := unix.Fsync(fd)
	for _, none := range []error{unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP} {
		if errors.Is(err, none) {
			return nil
		}
	}
	return fault.Wrap(err, fault.Internal, "write out the owner of", dir)
}

func giveRoot(fd int, dir string, st *unix.Stat_t, want Want) error {
	if !want.has(st.Uid, st.Gid) {
		if err := unix.Fchown(fd, want.UID, want.GID); err != nil {
			return refused(err, dir, want)
		}
	}
	if want.Mode >= 0 && int(st.Mode&0o7777) != want.Mode {
		if err := unix.Fchmod(fd, uint32(want.Mode)); err != nil {
			return refused(err, dir, want)
		}
	}
	return nil
}

// untouched reports that nobody has made anything in a file system.
func untouched(root *os.File) (bool, error) {
	names, err := root.Readdirnames(2)
	if len(names) == 0 {
		return true, nil // an error is the end of the list
	}
	return len(names) == 1 && names[0] == lostAndFound, ignoreEOF(err)
}

// giveAll gives everything but the root. Directories are opened by their path beneath it, one at a time, so that a deep
// tree takes no more descriptors than a flat one.
func giveAll(ctx context.Context, root *os.File, want Want) error {
	left := []string{"."}
	for len(left) > 0 {
		dir := left[len(left)-1]
		left = left[:len(left)-1]
		below, err := giveDir(ctx, root, dir, want)
		if err != nil {
			return err
		}
		left = append(left, below...)
	}
	return fault.Wrap(unix.Syncfs(int(root.Fd())), fault.Internal, "write out", root.Name())
}

// batch is how many names of a directory are read at once.
const batch = 1024

// giveDir gives what a directory holds, and returns the directories in it.
func giveDir(ctx context.Context, root *os.File, dir string, want Want) (below []string, err error) {
	const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV
	fd, err := unix.Openat2(int(root.Fd()), dir, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: beneath,
	})
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOENT):
		return nil, nil // another file system is mounted there, or it is gone
	case err != nil:
		return nil, refused(err, path.Join(root.Name(), dir), want)
	}
	f := os.NewFile(uintptr(fd), path.Join(root.Name(), dir))
	defer func() { _ = f.Close() }() // opened for reading
	for {
		if err := ctx.Err(); err != nil {
			return nil, fault.Wrap(err, fault.KindOf(err), "give", f.Name())
		}
		names, err := f.Readdirnames(batch)
		for _, name := range names {
			if dir == "." && name == lostAndFound {
				continue
			}
			isDir, err := giveOne(fd, name, want)
			if err != nil {
				return nil, refused(err, path.Join(f.Name(), name), want)
			}
			if isDir {
				below = append(below, path.Join(dir, name))
			}
		}
		if len(names) == 0 {
			return below, fault.Wrap(ignoreEOF(err), fault.Internal, "read", f.Name())
		}
	}
}

// giveOne gives one entry of a directory: a link itself, never what it leads to.
func giveOne(dir int, name string, want Want) (isDir bool, err error) {
	var st unix.Statx_t
	err = unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return false, err
	}
	if !want.has(st.Uid, st.Gid) {
		err = unix.Fchownat(dir, name, want.UID, want.GID, unix.AT_SYMLINK_NOFOLLOW)
	}
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

func refused(err error, path string, want Want) error {
	kind := fault.Internal
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) {
		kind = fault.Denied
	}
	return fault.WithHint(fault.Wrap(err, kind, fmt.Sprintf("give to %d:%d", want.UID, want.GID), path),
		`if its file system or server keeps owners itself, say so in the volume: ownership { policy = "none" }`)
}

// ignoreEOF is nil at the end of a list.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
