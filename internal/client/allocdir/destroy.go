package allocdir

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"os"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// resolve confines every step of a removal: beneath the directory that is held open, through no symbolic link and onto
// no other mount, bind mounts of the same file system included.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// Deepest is how many directories of an alloc may lie in each other: so many are open at once.
const Deepest = 512

// Destroy removes the alloc's directory. What is a mount point, or holds one, is kept and named in a fault.Conflict:
// a volume that somebody left mounted there is never emptied.
func (d Dir) Destroy() error {
	if err := d.DropSecrets(); err != nil {
		return err
	}
	if err := d.Disclose(); err != nil {
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
	r := remover{top: -1}
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
	kept   []string // mount points
	err    error    // the first that is none
	top    int      // the alloc's directory
	raised int      // how many trees were moved there, since they were too deep to be held open
}

func (r *remover) fail(err error, path string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", path, err)
	}
}

// entry removes one name of an open directory and reports whether it is gone.
func (r *remover) entry(parent int, name, path string, depth int) bool {
	if depth > Deepest {
		return r.raise(parent, name, path)
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
	if depth == 0 {
		r.top = fd
	}
	for {
		before := r.raised
		empty, again := r.pass(f, path, depth)
		if !again && (depth > 0 || r.raised == before) {
			return empty && r.unlink(parent, name, path, unix.AT_REMOVEDIR)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil { // for what was moved here meanwhile
			r.fail(err, path)
			return false
		}
	}
}

// pass removes what a directory lists, and reports whether that is all gone, and whether to look again: a list that is
// read in parts, while what it names goes, need not be whole.
func (r *remover) pass(f *os.File, path string, depth int) (empty, again bool) {
	empty = true
	for parts := 0; ; parts++ {
		names, err := f.Readdirnames(namesAtOnce)
		if err != nil && !errors.Is(err, io.EOF) {
			r.fail(err, path)
			return false, false
		}
		if len(names) == 0 {
			return empty, again
		}
		for _, n := range names {
			gone := r.entry(int(f.Fd()), n, filepath.Join(path, n), depth+1)
			empty, again = empty && gone, again || gone && parts > 0
		}
	}
}

// raise moves what lies too deep into the alloc's directory, where its turn comes.
func (r *remover) raise(parent int, name, path string) bool {
	r.raised++
	err := unix.Renameat(parent, name, r.top, fmt.Sprintf(".deep-%d", r.raised))
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
