package spawn

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/internal/base/descriptors"
	"berth/internal/base/fault"
)

// openLeaf opens a cgroup's directory for a child to be born in, on a mount of its own that hangs nowhere: from the
// directory no ".." leads into the node's tree.
func openLeaf(path string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fault.Wrap(err, fault.Internal, "open", "cgroup "+path)
	}
	return fd, nil
}

// runtimeFiles are the descriptors that Go's runtime uses on every thread. They lead nowhere.
func runtimeFiles() ([]uintptr, error) {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", dir)
	}
	var out []uintptr
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || to != "anon_inode:[eventpoll]" && to != "anon_inode:[eventfd]" {
			continue // an error: it was that of the list
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "read", dir)
		}
		out = append(out, uintptr(fd))
	}
	return out, nil
}

// isolateFiles gives the calling thread a table of descriptors of its own and closes in it all that it must not hand
// on, for good: the thread has to be locked, and to end with its goroutine. The process keeps what it has.
func isolateFiles(keep []uintptr) error {
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return fault.Wrap(err, fault.Internal, "separate", "the descriptors of a child")
	}
	keep = slices.Clone(keep)
	slices.Sort(keep)
	from := uint(descriptors.First)
	for _, fd := range keep {
		if uint(fd) > from {
			if err := unix.CloseRange(from, uint(fd)-1, 0); err != nil {
				return fault.Wrap(err, fault.Internal, "close", "the descriptors of a child")
			}
		}
		from = max(from, uint(fd)+1)
	}
	return fault.Wrap(unix.CloseRange(from, ^uint(0)>>32, 0), fault.Internal, "close", "the descriptors of a child")
}
