package spawn

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"

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

// runtimeFiles are the descriptors that Go's runtime uses on every thread. They lead nowhere. The runtime makes them
// once and keeps them for as long as the process lives, so that they are looked for until there is one of each.
func runtimeFiles() ([]uintptr, error) {
	if found := foundRuntimeFiles.Load(); found != nil {
		return *found, nil
	}
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", dir)
	}
	var out []uintptr
	var kinds []string
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || to != eventPoll && to != eventFD {
			continue // an error: it was that of the list
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "read", dir)
		}
		out, kinds = append(out, uintptr(fd)), append(kinds, to)
	}
	if len(kinds) == 2 && kinds[0] != kinds[1] {
		foundRuntimeFiles.Store(&out)
	}
	return out, nil
}

// What the runtime's descriptors are, as the kernel shows them.
const (
	eventPoll = "anon_inode:[eventpoll]"
	eventFD   = "anon_inode:[eventfd]"
)

var foundRuntimeFiles atomic.Pointer[[]uintptr]

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
