package fetch

import (
	"bytes"
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// seen is where a child of root's agent sees its directory: the way there from the root is open to every user.
const seen = "/tmp"

// kept are the mounts that a child keeps: what programs, TLS and the resolver need. A copy of any other, of a volume
// for one, would keep that from being detached for as long as the child runs.
var kept = []string{"/proc", "/dev", "/etc", "/usr", "/bin", "/lib", "/lib64", "/run/systemd/resolve"}

// seclude gives the thread, and what it starts, a view of the node's files of its own, in which a directory lies at
// seen and nothing is mounted that was not kept, or on the way to what it may read in addition.
func seclude(dir *os.File, readable []string) error {
	// Before the thread leaves the agent's mounts: none but those of where one is can be copied.
	at, err := unix.OpenTree(int(dir.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "show", dir.Name())
	}
	defer func() { _ = unix.Close(at) }() // the mount is in its place
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fault.Wrap(err, fault.Internal, "bound", "the mounts of a new process")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fault.Wrap(err, fault.Internal, "bound", "the mounts of a new process")
	}
	if err := forget(append(slices.Clone(kept), readable...)); err != nil {
		return err
	}
	err = unix.MoveMount(at, "", unix.AT_FDCWD, seen, unix.MOVE_MOUNT_F_EMPTY_PATH)
	return fault.Wrap(err, fault.Internal, "show", dir.Name())
}

// forget unmounts, in the thread's view, what is not kept.
func forget(kept []string) error {
	table, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "what is mounted")
	}
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		const point = 4
		if len(fields) <= point {
			continue
		}
		at := unescaped(fields[point])
		if at == "/" || keeps(kept, at) {
			continue
		}
		err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		withAnother := errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) // that it lay on
		if err != nil && !withAnother {
			return fault.Wrap(err, fault.Internal, "unmount for the child", at)
		}
	}
	return nil
}

// keeps reports whether a mount is one of those kept, lies on one, or has one on it.
func keeps(kept []string, at string) bool {
	for _, k := range kept {
		if at == k || strings.HasPrefix(at, k+"/") || strings.HasPrefix(k, path.Clean(at)+"/") {
			return true
		}
	}
	return false
}

// unescaped is a path as it is written in the table of mounts (proc_pid_mountinfo(5)).
func unescaped(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
