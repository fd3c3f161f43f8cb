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

// Stage is the directory of one fetch. Tasks of the user as whom it is fetched may run beside it and write where it
// lies, so nobody but the agent's user enters it, and it is known by what was opened when it was made: no path leads
// to it a second time.
type Stage struct {
	base  *os.Root // where it lies
	name  string   // there
	outer *os.Root // nobody but the agent's user enters it
	inner *os.File // the child's, within
	child uint32   // whose everything within is; a stage of an agent that is not root's: the agent's
	// modes are those that directories of what was fetched are to have, by their path in it.
	modes map[string]uint32
}

// Names within a stage: of the directory that is the child's, and of one on its way to its place.
const (
	innerName = "in"
	newName   = "new"
)

// NewStage makes the directory of a fetch in another one, anew. It closes that one with the stage.
func (c *Child) NewStage(base *os.Root, name string) (s *Stage, err error) {
	subject := filepath.Join(base.Name(), name)
	s = &Stage{base: base, name: name, child: uint32(os.Geteuid()), modes: map[string]uint32{}}
	defer func() {
		if err != nil {
			err = errors.Join(fault.Wrap(err, full(err, fault.Internal), "make directory", subject), s.Close())
			s = nil
		}
	}()
	if err = errors.Join(base.RemoveAll(name), base.Mkdir(name, 0o700)); err != nil {
		return s, err
	}
	if s.outer, err = base.OpenRoot(name); err != nil {
		return s, err
	}
	st, err := s.outer.Stat(".")
	if err != nil {
		return s, err
	}
	if raw, ok := st.Sys().(*syscall.Stat_t); !ok || raw.Uid != s.child || st.Mode().Perm() != 0o700 {
		return s, errors.New("somebody put another one in its place")
	}
	if err = s.outer.Mkdir(innerName, 0o700); err != nil {
		return s, err
	}
	if s.inner, err = s.outer.Open(innerName); err != nil || os.Geteuid() != 0 {
		return s, err
	}
	s.child = c.uid()
	return s, s.inner.Chown(int(c.uid()), int(c.gid()))
}

// Close ends what holds the stage. What is in it stays until somebody removes it.
func (s *Stage) Close() (err error) {
	if s.inner != nil {
		err = s.inner.Close()
	}
	if s.outer != nil {
		err = errors.Join(err, s.outer.Close())
	}
	return errors.Join(err, s.base.Close())
}

// Remove empties the stage, wherever somebody has moved it, and removes it.
func (s *Stage) Remove() error {
	err := errors.Join(s.outer.RemoveAll(innerName), s.outer.RemoveAll(newName), s.base.RemoveAll(s.name))
	return fault.Wrap(err, full(err, fault.Internal), "remove", filepath.Join(s.base.Name(), s.name))
}

// seal takes the stage from the child's user, whatever processes of that user have open of it, and returns what was
// fetched. From then on names in it stand for what they stood for when they were looked at.
func (s *Stage) seal() (data *os.Root, err error) {
	err = errors.Join(s.inner.Chown(os.Geteuid(), os.Getegid()), s.inner.Chmod(0o700))
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "take", "what was fetched")
	}
	at := path.Join(innerName, Data)
	st, err := s.outer.Lstat(at)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open", "what was fetched")
	}
	if !st.IsDir() {
		return nil, refused(Data, "it is no directory")
	}
	data, err = s.outer.OpenRoot(at)
	return data, fault.Wrap(err, fault.Internal, "open", "what was fetched")
}

// check looks at what a child left: whoever it was that answered, and whatever became of the child, there are plain
// files, directories and links within, the child's own and of one name each, and not more than the bounds say.
// Directories are the agent's before it is looked what they have.
func (s *Stage) check(data *os.Root, b Bounds) error {
	left := budget{bytes: b.Unpacked, files: b.Files}
	if b.Received > 0 && left.bytes > 0 { // a file that is not unpacked has the other bound
		left.bytes = max(left.bytes, b.Received)
	}
	return fs.WalkDir(data.FS(), ".", func(at string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := data.Lstat(at)
		if err != nil {
			return fault.Wrap(err, fault.Internal, "look at", at)
		}
		raw, ok := st.Sys().(*syscall.Stat_t)
		if !ok || raw.Uid != s.child {
			return refused(at, "it is somebody else's than who fetched it")
		}
		if at != "." {
			err = left.entry()
		}
		switch t := st.Mode().Type(); {
		case err != nil:
			return err
		case t == fs.ModeSymlink:
			link, err := data.Readlink(at)
			if err != nil || path.IsAbs(link) || !filepath.IsLocal(path.Join(path.Dir(at), link)) {
				return refused(at, "it is a link that leads out of the artifact")
			}
			return leadsOut(data, at)
		case t == 0:
			if raw.Nlink > 1 {
				return refused(at, "it has another name")
			}
			if st.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				return refused(at, "it is set-user-id or set-group-id")
			}
			return left.take(st.Size())
		case t != fs.ModeDir:
			return refused(at, "it is no file, directory or link")
		}
		return s.keep(data, at, st)
	})
}

// keep makes a directory the agent's.
func (s *Stage) keep(data *os.Root, at string, st fs.FileInfo) error {
	if strings.Count(at, "/") >= deepest {
		return tooDeep(at)
	}
	s.modes[at] = uint32(st.Mode().Perm())
	err := errors.Join(data.Lchown(at, os.Geteuid(), os.Getegid()), data.Chmod(at, 0o700))
	return fault.Wrap(err, fault.Internal, "take", at)
}

// deepest bounds how deep directories lie in each other: each is open while what is below it is put in its place.
const deepest = 200

func tooDeep(at string) error {
	const most = 100
	if len(at) > most {
		at = strings.ToValidUTF8(at[:most], "") + "…"
	}
	return refused(at, fmt.Sprintf("it lies deeper than %d directories", deepest))
}

// directory opens a directory in another one. It makes what is not there in the stage, the owner's and with its mode,
// and puts it in its place whole. No link is followed.
func (s *Stage) directory(p *Place, at int, name string, mode uint32) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, flags, 0)
	if !errors.Is(err, fs.ErrNotExist) { // it may be of another file system, where nothing is made
		return fd, err
	}
	if made, err := s.put(p, at, name, mode); made >= 0 || err != nil {
		return made, err
	}
	return unix.Openat(at, name, flags, 0)
}

// put makes a directory; below 0: somebody else has made one.
func (s *Stage) put(p *Place, at int, name string, mode uint32) (int, error) {
	err := s.outer.Mkdir(newName, 0o700)
	if err != nil {
		return -1, err
	}
	made, err := s.outer.Open(newName)
	if err != nil {
		return -1, err
	}
	defer func() { _ = made.Close() }() // opened for paths only
	if os.Geteuid() == 0 {
		err = made.Chown(max(p.UID, 0), max(p.GID, 0))
	}
	if err = errors.Join(err, made.Chmod(fs.FileMode(mode))); err != nil {
		return -1, err
	}
	outer, err := s.outer.Open(".")
	if err != nil {
		return -1, err
	}
	defer func() { _ = outer.Close() }() // opened for paths only
	err = unix.Renameat2(int(outer.Fd()), newName, at, name, unix.RENAME_NOREPLACE)
	if err == nil {
		return unix.FcntlInt(made.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	}
	if gone := s.outer.Remove(newName); gone != nil || !errors.Is(err, fs.ErrExist) {
		return -1, errors.Join(err, gone)
	}
	return -1, nil
}
