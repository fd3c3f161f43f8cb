// Package quota owns that directories of one file system take no more than so much each, by the kernel's project
// quotas: what is made in a directory belongs to the directory's project, and a project may have a limit. Which project
// a directory has is written in the directory alone. Only the package of allocs' directories imports it.
package quota

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// First and Count are the projects that directories are given. Nobody else on the file system may use them.
const (
	First uint32 = 1 << 20
	Count uint32 = 1 << 20
)

// perFile is how many bytes of a limit allow for one file: more files than that would be more empty ones than the limit
// has blocks.
const perFile = 4096

// Projects bounds directories that lie side by side.
type Projects struct {
	Base   string // the directory that they lie in
	Kernel Kernel // nil: this machine's
}

// Use is what a directory with a project takes.
type Use struct {
	Bytes int64
	Files int64
}

// Check asks whether the file system of the base, or of the first directory above it that is there, holds projects to
// limits; if not it is fault.Unsupported.
func (p Projects) Check() error {
	dir, err := p.nearest()
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // opened for reading
	without := func(err error) error {
		return fault.WithHint(fault.Wrap(err, fault.Unsupported, "use", "project quotas of "+dir.Name()),
			"mount its file system with -o prjquota (ext4 needs tune2fs -O project,quota -Q prjquota first), on a "+
				`kernel that has them, or write enforce = "image"`)
	}
	if _, err := p.attributes(dir); err != nil {
		return without(err)
	}
	state := make([]byte, sizeState)
	if err := p.kernel().Quotactl(int(dir.Fd()), getState, 0, state); err != nil {
		return without(err)
	}
	if flags := binary.NativeEndian.Uint16(state[atStateFlags:]); flags&(counted|held) != counted|held {
		return without(fmt.Errorf("projects are counted: %t, held to limits: %t", flags&counted != 0, flags&held != 0))
	}
	return nil
}

// Bound gives a directory of the base a project of its own, whose files may occupy so many bytes. The directory has to
// be empty: what is in it would stay outside. One that has a project keeps it, and gets the limit.
func (p Projects) Bound(name string, bytes int64) error {
	path := filepath.Join(p.Base, name)
	base, err := open(p.Base)
	if err != nil {
		return err
	}
	defer func() { _ = base.Close() }() // which unlocks it
	if err := unix.Flock(int(base.Fd()), unix.LOCK_EX); err != nil {
		return fault.Wrap(err, fault.Internal, "lock", p.Base)
	}
	dir, err := open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // opened for reading
	has, err := p.attributes(dir)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read the project of", path)
	}
	project := has.project()
	if !ours(project) { // none, or one that is inherited: whose it is, its limit is no business of ours
		if names, err := dir.Readdirnames(1); err == nil && len(names) > 0 {
			return fault.New(fault.Invalid, "bound", path, "it is not empty: what is in it would not be counted")
		}
		if project, err = p.free(base); err != nil {
			return err
		}
	}
	// The limit comes first: a project that is cut off here has nothing, one without a limit could take everything.
	if err := p.limit(dir, project, bytes); err != nil {
		return fault.Wrap(err, fault.Internal, "limit", fmt.Sprintf("project %d of %s", project, path))
	}
	if has.project() == project {
		return nil
	}
	has.give(project)
	return fault.Wrap(p.kernel().Ioctl(int(dir.Fd()), setAttributes, has[:]), fault.Internal, "give a project to", path)
}

// Used tells what a directory of the base takes; false: it has no project of ours, or its file system counts none now.
func (p Projects) Used(name string) (Use, bool, error) {
	dir, project, err := p.bounded(name)
	if dir == nil || err != nil {
		return Use{}, false, err
	}
	defer func() { _ = dir.Close() }() // opened for reading
	l, err := p.limits(dir, project)
	if off(err) {
		return Use{}, false, nil
	}
	if err != nil {
		return Use{}, false, fault.Wrap(err, fault.Internal, "measure", dir.Name())
	}
	return Use{Bytes: l.bytes(), Files: l.files()}, true, nil
}

// Release takes the limit from a directory's project. The project is free when the directory is gone.
func (p Projects) Release(name string) error {
	dir, project, err := p.bounded(name)
	if dir == nil || err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // opened for reading
	err = p.limit(dir, project, 0)
	if off(err) {
		return nil
	}
	return fault.Wrap(err, fault.Internal, "take the limit from", dir.Name())
}

// off says that the file system has no quotas, or not any more: it is mounted without, or the kernel is another.
func off(err error) bool {
	for _, e := range []error{unix.ENOTTY, unix.EOPNOTSUPP, unix.ENOSYS, unix.ESRCH} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// bounded opens a directory that has a project of ours; nil: it has none, or is no directory, or not there.
func (p Projects) bounded(name string) (*os.File, uint32, error) {
	dir, err := open(filepath.Join(p.Base, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	has, err := p.attributes(dir)
	if err == nil && ours(has.project()) {
		return dir, has.project(), nil
	}
	_ = dir.Close() // opened for reading
	if err != nil && !off(err) {
		return nil, 0, fault.Wrap(err, fault.Internal, "read the project of", dir.Name())
	}
	return nil, 0, nil
}

// free finds a project that no directory of the base has, and that nothing else is counted for.
func (p Projects) free(base *os.File) (uint32, error) {
	names, err := base.Readdirnames(-1)
	if err != nil {
		return 0, fault.Wrap(err, fault.Internal, "list", p.Base)
	}
	taken := map[uint32]bool{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		dir, project, err := p.bounded(name)
		if err != nil {
			return 0, err
		}
		if dir != nil {
			_ = dir.Close() // opened for reading
			taken[project] = true
		}
	}
	for id := First; id < First+Count; id++ {
		if taken[id] {
			continue
		}
		l, err := p.limits(base, id)
		if err != nil {
			return 0, fault.Wrap(err, fault.Internal, "look for a free project of", p.Base)
		}
		if l.empty() {
			return id, nil
		}
	}
	return 0, fault.New(fault.Exhausted, "find", "a free project of "+p.Base,
		fmt.Sprintf("all of %d to %d are taken", First, First+Count-1))
}

func ours(project uint32) bool { return project >= First && project < First+Count }

func (p Projects) kernel() Kernel {
	if p.Kernel == nil {
		return machine{}
	}
	return p.Kernel
}

func (p Projects) nearest() (*os.File, error) {
	for path := p.Base; ; path = filepath.Dir(path) {
		dir, err := open(path)
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return dir, err
		}
	}
}

func open(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	return dir, fault.Wrap(err, fault.Internal, "open", path)
}
