package fetch

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

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

// Install puts what was fetched in its place, one file after the other, each whole or not at all. No link is followed
// on the way there, whoever laid it.
func (p *Place) Install(s *Stage, r *Result) error {
	data, err := s.seal()
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }() // opened for paths only
	if err := s.check(data, p.Bounds); err != nil {
		return err
	}
	from, err := data.Open(".")
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", "what was fetched")
	}
	defer func() { _ = from.Close() }() // opened for paths only
	src := int(from.Fd())
	into, name := p.Rel, ""
	if p.File {
		into, name = path.Split(p.Rel)
	}
	i := &installing{Place: p, stage: s}
	dst, err := i.parents(into)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dst) }() // opened for paths only
	if !p.File {
		return i.merge(src, dst, ".")
	}
	if r.File == "" {
		return fault.New(fault.Invalid, "", "", "mode is \"file\", and it is a directory")
	}
	return i.move(src, r.File, dst, name, into)
}

type installing struct {
	*Place
	stage *Stage
}

// parents opens the directory that things are put into, and makes what is missing of it.
func (i *installing) parents(rel string) (int, error) {
	at, err := unix.Open(i.Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fault.Wrap(err, fault.Internal, "open", i.Root)
	}
	for step := range strings.SplitSeq(path.Clean(rel), "/") {
		if step == "." || step == "" {
			continue
		}
		next, err := i.stage.directory(i.Place, at, step, 0o755)
		if err = errors.Join(err, unix.Close(at)); err != nil {
			return -1, inPlace(rel, err)
		}
		at = next
	}
	return at, nil
}

// merge puts everything in one directory, which lies at a path of what was fetched, into another.
func (i *installing) merge(src, dst int, at string) error {
	names, err := list(src)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "what was fetched")
	}
	for _, name := range names {
		if mode, dir := i.stage.modes[path.Join(at, name)]; dir {
			err = i.descend(src, dst, name, at, mode)
		} else {
			err = i.move(src, name, dst, name, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (i *installing) descend(src, dst int, name, at string, mode uint32) error {
	from, err := unix.Openat(src, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", name)
	}
	defer func() { _ = unix.Close(from) }() // opened for paths only
	to, err := i.stage.directory(i.Place, dst, name, mode)
	if err != nil {
		return inPlace(path.Join(at, name), err)
	}
	err = i.merge(from, to, path.Join(at, name))
	return errors.Join(err, unix.Close(to))
}

// move gives a file or a link its owner and puts it in its place, of whatever lies there but a directory. What is given
// away is what was opened, and the child's own: never anything that a name has come to stand for.
func (i *installing) move(src int, name string, dst int, as, at string) error {
	fd, err := unix.Openat(src, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return inPlace(path.Join(at, as), err)
	}
	defer func() { _ = unix.Close(fd) }() // opened for its name only
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault.Wrap(err, fault.Internal, "look at", name)
	}
	if st.Uid != i.stage.child || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return refused(name, "it is somebody else's than who fetched it")
	}
	if os.Geteuid() == 0 {
		err = unix.Fchownat(fd, "", max(i.UID, 0), max(i.GID, 0), unix.AT_EMPTY_PATH)
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
