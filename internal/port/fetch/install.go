package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Place is where what was fetched is put, and whose it becomes.
type Place struct {
	Root string // a directory of the node
	Rel  string // beneath it: of a file with mode file, of a directory otherwise
	File bool   // mode file
	// UID and GID are whose it becomes; below 0: whoever puts it there.
	UID, GID int
	Bounds   Bounds
}

// Check looks at what a child left in a directory of a fetch: whoever it was that answered, and whatever became of the
// child, there are plain files, directories and links within, of one name each, and not more than the bounds say.
func (p *Place) Check(dir string) error {
	root, err := os.OpenRoot(filepath.Join(dir, Data))
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", "what was fetched")
	}
	defer func() { _ = root.Close() }() // opened for paths only
	left := budget{bytes: p.Bounds.Unpacked, files: p.Bounds.Files}
	if p.Bounds.Received > 0 && left.bytes > 0 { // a file that is not unpacked has the other bound
		left.bytes = max(left.bytes, p.Bounds.Received)
	}
	return fs.WalkDir(root.FS(), ".", func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == "." {
			return err
		}
		st, err := root.Lstat(at)
		if err != nil {
			return fault.Wrap(err, fault.Internal, "look at", at)
		}
		if err := left.entry(); err != nil {
			return err
		}
		switch t := st.Mode().Type(); {
		case t == fs.ModeSymlink:
			link, err := root.Readlink(at)
			if err != nil || path.IsAbs(link) || !filepath.IsLocal(path.Join(path.Dir(at), link)) {
				return refused(at, "it is a link that leads out of the artifact")
			}
			return leadsOut(root, at)
		case t == 0:
			if raw, ok := st.Sys().(*syscall.Stat_t); !ok || raw.Nlink > 1 {
				return refused(at, "it has another name")
			}
			if st.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				return refused(at, "it is set-user-id or set-group-id")
			}
			return left.take(st.Size())
		case t != fs.ModeDir:
			return refused(at, "it is no file, directory or link")
		}
		return nil
	})
}

// Install puts what was fetched in its place, one file after the other, each whole or not at all. No link is followed
// on the way there, whoever laid it.
func (p *Place) Install(dir string, r *Result) error {
	if err := p.Check(dir); err != nil {
		return err
	}
	src, err := unix.Open(filepath.Join(dir, Data), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", "what was fetched")
	}
	defer func() { _ = unix.Close(src) }() // opened for paths only
	into, name := p.Rel, ""
	if p.File {
		into, name = path.Split(p.Rel)
	}
	dst, err := p.parents(into)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dst) }() // opened for paths only
	if !p.File {
		return p.merge(src, dst, p.Rel, 0)
	}
	if r.File == "" {
		return fault.New(fault.Invalid, "", "", "mode is \"file\", and it is a directory")
	}
	return p.move(src, r.File, dst, name, into)
}

// parents opens the directory that things are put into, and makes what is missing of it.
func (p *Place) parents(rel string) (int, error) {
	at, err := unix.Open(p.Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fault.Wrap(err, fault.Internal, "open", p.Root)
	}
	for step := range strings.SplitSeq(path.Clean(rel), "/") {
		if step == "." || step == "" {
			continue
		}
		next, err := p.directory(at, step, 0o755)
		if err = errors.Join(err, unix.Close(at)); err != nil {
			return -1, inPlace(rel, err)
		}
		at = next
	}
	return at, nil
}

// directory opens one beneath another, and makes it, the owner's, where it is not.
func (p *Place) directory(at int, name string, mode uint32) (int, error) {
	made := unix.Mkdirat(at, name, mode)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return -1, made
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil || made != nil {
		return fd, err
	}
	return fd, errors.Join(p.own(fd), unix.Fchmod(fd, mode))
}

func (p *Place) own(fd int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return unix.Fchown(fd, max(p.UID, 0), max(p.GID, 0))
}

// deepest bounds how deep directories lie in each other: each is open while what is below it is put in its place.
const deepest = 200

// merge puts everything in one directory into another.
func (p *Place) merge(src, dst int, at string, depth int) error {
	if depth > deepest {
		return refused(at, fmt.Sprintf("it lies deeper than %d directories", deepest))
	}
	names, err := list(src)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "what was fetched")
	}
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(src, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fault.Wrap(err, fault.Internal, "look at", name)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = p.descend(src, dst, name, at, depth, st.Mode&0o777)
		} else {
			err = p.move(src, name, dst, name, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Place) descend(src, dst int, name, at string, depth int, mode uint32) error {
	from, err := unix.Openat(src, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", name)
	}
	defer func() { _ = unix.Close(from) }() // opened for paths only
	to, err := p.directory(dst, name, mode)
	if err != nil {
		return inPlace(path.Join(at, name), err)
	}
	err = p.merge(from, to, path.Join(at, name), depth+1)
	return errors.Join(err, unix.Close(to))
}

// move gives a file or a link its owner and puts it in its place, of whatever lies there but a directory.
func (p *Place) move(src int, name string, dst int, as, at string) error {
	var err error
	if os.Geteuid() == 0 {
		err = unix.Fchownat(src, name, max(p.UID, 0), max(p.GID, 0), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = unix.Renameat(src, name, dst, as)
	}
	return inPlace(path.Join(at, as), err)
}

func inPlace(at string, err error) error {
	switch {
	case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR):
		return fault.WithHint(fault.New(fault.Invalid, "put in place", fmt.Sprintf("%q", at),
			"on the way there lies a link or a file, which is not followed"), "give the artifact another destination")
	case errors.Is(err, unix.EISDIR):
		return fault.WithHint(fault.New(fault.Invalid, "put in place", fmt.Sprintf("%q", at),
			"a directory lies in its place"), "give the artifact another destination")
	}
	return fault.Wrap(err, full(err, fault.Internal), "put in place", fmt.Sprintf("%q", at))
}

// list is what a directory has.
func list(fd int) ([]string, error) {
	again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(again), "directory")
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}
