package initstage

import (
	"errors"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// look finds what is at a path of the node, which is resolved once: what is done with it is done to what was found,
// whatever happens to the names meanwhile.
func look(dir int, name string) (fd int, st unix.Stat_t, err error) {
	fd, err = unix.Openat2(dir, name,
		&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, st, errors.Join(err, unix.Close(fd))
	}
	return fd, st, nil
}

// clone copies the mount tree at a path of the node, detached.
func clone(source string) (tree int, isDir bool, err error) {
	fd, st, err := look(unix.AT_FDCWD, source)
	if err != nil {
		return -1, false, fault.Wrap(err, fault.Invalid, "mount", quote(source))
	}
	defer unix.Close(fd)
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return -1, false,
			fault.WithHint(fault.New(fault.Invalid, "mount", quote(source), "it is a symbolic link"),
				"name the directory that it points to")
	}
	tree, err = cloneOf(fd, source)
	return tree, st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// cloneOf copies the mount tree at what was found at a path of the node.
func cloneOf(fd int, source string) (tree int, err error) {
	tree, err = unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	return tree, fault.Wrap(err, fault.Internal, "clone the mounts at", quote(source))
}

// restrict sets attributes (read-only, nosuid …) and propagation of a whole detached tree.
func restrict(tree int, attrs, propagation uint64) error {
	a := &unix.MountAttr{Attr_set: attrs, Propagation: propagation}
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, a)
}

// fresh mounts a new file system, detached.
func fresh(kind string, attrs int, options ...string) (int, error) {
	fail := func(err error) (int, error) { return -1, fault.Wrap(err, fault.Internal, "mount", "a new "+kind) }
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		if value == "" {
			err = unix.FsconfigSetFlag(fs, key)
		} else {
			err = unix.FsconfigSetString(fs, key, value)
		}
		if err != nil {
			return fail(err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return fail(err)
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrs)
	if err != nil {
		return fail(err)
	}
	return tree, nil
}

// attach mounts a detached tree at a path of the task's root, making the target where it is missing, and closes it.
func (r *root) attach(tree int, target string, dir bool) error {
	defer unix.Close(tree)
	fd, err := r.target(target, dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return fault.Wrap(unix.MoveMount(tree, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH),
		fault.Internal, "mount at", quote(target)+" of the task's root")
}

// inRoot resolves a path as the task would: links in it, which a task may have made, never lead out of the root.
func (r *root) inRoot(p string, flags int) (int, error) {
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	if p == "" {
		p = "."
	}
	return unix.Openat2(r.fd, p,
		&unix.OpenHow{
			Flags:   uint64(unix.O_PATH | unix.O_CLOEXEC | flags),
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
}

// target opens a mount target, making it and the directories above it where they are missing.
func (r *root) target(p string, dir bool) (int, error) {
	fail := func(err error) (int, error) {
		return -1, fault.WithHint(
			fault.Wrap(err, fault.Invalid, "make", "mount target "+quote(p)+" in the task's root"),
			"it does not exist and what lies above it is read-only or not a directory; choose a destination below "+
				"/local or one of its own, like /data")
	}
	// Most are there, and need no look at what lies above them.
	if fd, err := r.inRoot(p, 0); !errors.Is(err, unix.ENOENT) {
		if err != nil {
			return fail(err)
		}
		return fd, nil
	}
	parts := strings.Split(strings.Trim(path.Clean("/"+p), "/"), "/")
	at := ""
	for i, part := range parts {
		parent := at
		at = at + "/" + part
		fd, err := r.inRoot(at, 0)
		last := i == len(parts)-1
		if errors.Is(err, unix.ENOENT) {
			if err := r.make(parent, part, last && !dir); err != nil {
				return fail(err)
			}
			fd, err = r.inRoot(at, 0)
		}
		if err != nil {
			return fail(err)
		}
		if last {
			return fd, nil
		}
		if err := unix.Close(fd); err != nil {
			return fail(err)
		}
	}
	return fail(unix.EINVAL)
}

// make makes one directory or empty file in the task's root. It belongs to whom the directory belongs that it is made
// in, which may be one of a volume: nobody finds things of root in what is theirs. A link in its place is not followed.
func (r *root) make(parent, name string, file bool) error {
	fd, err := r.inRoot(parent, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var of unix.Stat_t
	if err := unix.Fstat(fd, &of); err != nil {
		return err
	}
	// Not given away afterwards: whoever may write there could have put something else in its place meanwhile.
	err = r.actingAs(of.Uid, of.Gid, func() error {
		if file {
			// Not by open, which would wait at a pipe that a task has put there.
			return unix.Mknodat(fd, name, unix.S_IFREG|0o644, 0)
		}
		return unix.Mkdirat(fd, name, 0o755)
	})
	if errors.Is(err, unix.EEXIST) {
		return nil // another task of the alloc made it meanwhile
	}
	return err
}

// shared reports whether a path of the task's root lies on a mount that propagates to the node.
func (r *root) shared(target string) (bool, error) {
	fd, err := r.inRoot(target, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx); err != nil {
		return false, err
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	id := strconv.FormatUint(stx.Mnt_id, 10)
	for line := range strings.Lines(string(table)) {
		left, _, _ := strings.Cut(line, " - ")
		if f := strings.Fields(left); len(f) > 6 && f[0] == id {
			for _, tag := range f[6:] {
				if strings.HasPrefix(tag, "shared:") {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

func quote(s string) string { return `"` + s + `"` }
