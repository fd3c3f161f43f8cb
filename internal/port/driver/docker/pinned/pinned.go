// Package pinned owns places at which a directory is held while a container that is to see it starts. The daemon
// takes paths, which tasks that share a directory can lead elsewhere after they were looked at; such a place leads to
// what was looked at, whatever stands at its path by then. The driver docker imports it.
package pinned

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/port/dockerapi"
	"berth/internal/port/hostfs"
)

// Places are below one directory of the agent's own.
type Places struct{ Dir string }

// Hold holds those sources of mounts that lie in a directory which others can write to, and has the mounts come from
// where they are held. name is a new place's. release gives them back; a container that has started needs them no more.
func (p Places) Hold(name, shared string, mounts []dockerapi.Mount, not ...string) (release func() error, err error) {
	nothing := func() error { return nil }
	root, err := filepath.EvalSymlinks(shared)
	if err != nil {
		return nothing, fault.Wrap(err, fault.Internal, "find", shared)
	}
	dir := filepath.Join(p.Dir, name)
	held := false
	for i, m := range mounts {
		rel, err := filepath.Rel(root, m.Source)
		if m.Type != "bind" || err != nil || rel == "." || !filepath.IsLocal(rel) || slices.Contains(not, m.Source) {
			continue
		}
		if !held {
			held = true
			if err := p.free(dir); err != nil { // of a start that was cut off
				return nothing, err
			}
		}
		at := filepath.Join(dir, strconv.Itoa(i))
		if err := hold(root, rel, at); err != nil {
			return nothing, errors.Join(fault.Note(err, "hold", m.Source), p.free(dir))
		}
		mounts[i].Source = at
	}
	if !held {
		return nothing, nil
	}
	return func() error { return p.free(dir) }, nil
}

// hold mounts a file or directory of root at a path that is not there yet. No link leads to it.
func hold(root, rel, at string) error {
	base, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", root)
	}
	defer func() { _ = unix.Close(base) }() // it was used
	fd, err := unix.Openat2(base, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return fault.WithHint(fault.Wrap(err, fault.Invalid, "", "what it was when it was looked at is gone"),
			"another task of the allocation moved it: let it stand while tasks start")
	}
	defer func() { _ = unix.Close(fd) }() // the mount holds it
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault.Wrap(err, fault.Internal, "look at", rel)
	}
	if err := durable.MakeDir(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(at, 0o700)
	} else {
		err = os.WriteFile(at, nil, 0o600)
	}
	if err == nil {
		err = unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), at, "", unix.MS_BIND|unix.MS_REC, "")
	}
	return fault.Wrap(err, fault.Internal, "mount", at)
}

// free gives back what one name holds.
func (p Places) free(dir string) error {
	table, err := hostfs.ReadTableAnew()
	if err != nil {
		return err
	}
	beneath := table.Beneath(dir)
	for i := len(beneath) - 1; i >= 0; i-- {
		err := unix.Unmount(beneath[i].Path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return fault.Wrap(err, fault.Internal, "unmount", beneath[i].Path)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.Wrap(err, fault.Internal, "read", dir)
	}
	for _, e := range entries { // and nothing of what was held, should it still be: a directory goes only when empty
		err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fault.Wrap(errors.Join(err, os.Remove(dir)), fault.Internal, "remove", dir)
}

// FreeAll gives back what an agent held that died.
func (p Places) FreeAll() error {
	names, err := os.ReadDir(p.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	err = fault.Wrap(err, fault.Internal, "read", p.Dir)
	for _, n := range names {
		err = errors.Join(err, p.free(filepath.Join(p.Dir, n.Name())))
	}
	return err
}
