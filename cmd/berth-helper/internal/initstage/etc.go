package initstage

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// etc is the directory of which a task sees single entries. What the node renames over one of them later is not seen,
// and uncovers nothing: no name of the node is looked at any more.
const etc = "/etc"

// link is a symbolic link of the task's /etc.
type link struct{ name, to string }

// collectEtc clones the entries of the node's /etc that the task shall see, and notes links that lead to what it sees.
func (r *root) collectEtc() error {
	if len(r.iso.Etc) == 0 {
		return nil
	}
	dir, err := unix.Open(etc, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "show", quote(etc))
	}
	defer unix.Close(dir)
	for _, name := range r.iso.Etc {
		p := path.Join(etc, name)
		if !strings.HasPrefix(p, etc+"/") {
			return fault.New(fault.Invalid, "show", quote(name), "it is not below "+etc)
		}
		if err := r.collectEntry(dir, p); err != nil {
			return err
		}
	}
	return nil
}

// collectEntry looks at the entry once: there are some thirty of them in each start.
func (r *root) collectEntry(dir int, p string) error {
	fd, st, err := look(dir, strings.TrimPrefix(p, etc+"/"))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "show", quote(p))
	}
	defer unix.Close(fd)
	b := shimproto.Bind{Source: p, Target: p, ReadOnly: true}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		clone, err := cloneOf(fd, p)
		if err != nil {
			return err
		}
		return r.keep(tree{
			fd:     clone,
			dir:    st.Mode&unix.S_IFMT == unix.S_IFDIR,
			target: p,
			bind:   &b,
			system: true,
		}, r.users >= 0)
	}
	to, err := readlink(fd)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "show", quote(p))
	}
	if r.sees(path.Join(path.Dir(p), to), to) {
		r.links = append(r.links, link{name: p, to: to})
		return nil
	}
	b.Source, err = filepath.EvalSymlinks(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a link that leads nowhere
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "show", quote(p))
	}
	return r.add(b, true)
}

// readlink reads a symbolic link that was opened.
func readlink(fd int) (string, error) {
	to := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", to)
	return string(to[:max(n, 0)]), err
}

// sees reports whether a link leads to where the task may find the same as the node.
func (r *root) sees(relative, to string) bool {
	if path.IsAbs(to) {
		relative = path.Clean(to)
	}
	seen := []string{"/proc"}
	for _, dir := range r.iso.System {
		if dir != etc {
			seen = append(seen, dir)
		}
	}
	for _, name := range r.iso.Etc {
		seen = append(seen, path.Join(etc, name))
	}
	return slices.ContainsFunc(seen, func(p string) bool { return relative == p || strings.HasPrefix(relative, p+"/") })
}

// makeEtc makes the task's /etc, with its links; the rest is attached like everything of the system.
func (r *root) makeEtc() error {
	if len(r.iso.Etc) == 0 {
		return nil
	}
	fd, err := fresh("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, "mode=0755",
		"size=256k")
	if err != nil {
		return err
	}
	r.etc = fd
	err = unix.Mkdirat(r.fd, path.Base(etc), 0o755)
	if err == nil {
		err = unix.MoveMount(fd, "", r.fd, path.Base(etc), unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "mount at", quote(etc)+" of the task's root")
	}
	for _, l := range r.links {
		dir, err := r.target(path.Dir(l.name), true)
		if err != nil {
			return err
		}
		err = unix.Symlinkat(l.to, dir, path.Base(l.name))
		if err := errors.Join(err, unix.Close(dir)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fault.Wrap(err, fault.Internal, "repeat", "link "+quote(l.name)+" in the task's root")
		}
	}
	return nil
}

// attachEtc mounts a tree at a name of the task's /etc, where nobody else makes anything, and closes it.
func (r *root) attachEtc(t tree, name string) error {
	defer unix.Close(t.fd)
	var err error
	if t.dir {
		err = unix.Mkdirat(r.etc, name, 0o755)
	} else {
		err = unix.Mknodat(r.etc, name, unix.S_IFREG|0o644, 0)
	}
	if err == nil || errors.Is(err, unix.EEXIST) {
		err = unix.MoveMount(t.fd, "", r.etc, name, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	return fault.Wrap(err, fault.Internal, "mount at", quote(t.target)+" of the task's root")
}

// sealEtc makes the task's /etc read-only, after a job's own mounts found their place in it.
func (r *root) sealEtc() error {
	if len(r.iso.Etc) == 0 {
		return nil
	}
	err := unix.MountSetattr(r.etc, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	return fault.Wrap(errors.Join(err, unix.Close(r.etc)), fault.Internal, "make read-only", quote(etc))
}
