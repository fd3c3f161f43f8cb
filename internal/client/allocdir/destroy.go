package allocdir

import (
	"errors"
	"fmt"
	"path/filepath"

	"os"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// resolve confines every step of a removal: beneath the directory that is held open, through no symbolic link and onto
// no other mount, bind mounts of the same file system included.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// maxDepth bounds a removal's depth of open directories.
const maxDepth = 512

// Destroy removes the alloc's directory. What is a mount point, or holds one, is kept and named in a fault.Conflict:
// a volume that somebody left mounted there is never emptied.
func (d Dir) Destroy() error {
	if err := d.DropSecrets(); err != nil {
		return err
	}
	if err := d.disclose(); err != nil {
		return err
	}
	if err := d.projects().Release(filepath.Base(d.path)); err != nil {
		return err
	}
	base, err := os.Open(filepath.Dir(d.path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return classify(err, "open", filepath.Dir(d.path))
	}
	defer func() { _ = base.Close() }() // opened for reading
	r := remover{}
	r.entry(int(base.Fd()), filepath.Base(d.path), d.path, 0)
	if len(r.kept) == 0 && r.err == nil {
		return d.dropImage()
	}
	if r.err != nil {
		return classify(r.err, "remove", d.path)
	}
	return fault.WithHint(
		fault.New(fault.Conflict, "remove", d.path, fmt.Sprintf("kept %s: something is mounted there", r.kept[0])),
		"unmount it; the directory is removed at the next try")
}

type remover struct {
	kept []string // mount points
	err  error    // the first that is none
}

func (r *remover) fail(err error, path string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", path, err)
	}
}

// entry removes one name of an open directory and reports whether it is gone.
func (r *remover) entry(parent int, name, path string, depth int) bool {
	if depth > maxDepth {
		r.fail(unix.ELOOP, path)
		return false
	}
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: resolve})
	switch {
	case err == nil:
		return r.directory(parent, fd, name, path, depth)
	case errors.Is(err, unix.ENOENT):
		return true
	case errors.Is(err, unix.EXDEV):
		r.kept = append(r.kept, path)
		return false
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return r.unlink(parent, name, path, 0)
	}
	r.fail(err, path)
	return false
}

func (r *remover) directory(parent, fd int, name, path string, depth int) bool {
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }() // opened for reading
	names, err := f.Readdirnames(-1)
	if err != nil {
		r.fail(err, path)
		return false
	}
	empty := true
	for _, n := range names {
		empty = r.entry(fd, n, filepath.Join(path, n), depth+1) && empty
	}
	return empty && r.unlink(parent, name, path, unix.AT_REMOVEDIR)
}

func (r *remover) unlink(parent int, name, path string, flags int) bool {
	err := unix.Unlinkat(parent, name, flags)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return true
	case errors.Is(err, unix.EBUSY):
		r.kept = append(r.kept, path)
	default:
		r.fail(err, path)
	}
	return false
}
