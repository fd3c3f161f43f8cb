package initstage

import (
	"errors"
	"io/fs"
	"os"
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
	for _, name := range r.iso.Etc {
		p := path.Join(etc, name)
		if !strings.HasPrefix(p, etc+"/") {
			return fault.New(fault.Invalid, "show", quote(name), "it is not below "+etc)
		}
		to, err := os.Readlink(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && r.sees(path.Join(path.Dir(p), to), to):
			r.links = append(r.links, link{name: p, to: to})
			continue
		}
		source, err := filepath.EvalSymlinks(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a link that leads nowhere
		}
		if err != nil {
			return fault.Wrap(err, fault.Internal, "show", quote(p))
		}
		if err := r.add(shimproto.Bind{Source: source, Target: p, ReadOnly: true}, true); err != nil {
			return err
		}
	}
	return nil
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
	attrs := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	if err := r.mountFresh(etc, "tmpfs", attrs, "mode=0755", "size=256k"); err != nil {
		return err
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

// sealEtc makes the task's /etc read-only, after a job's own mounts found their place in it.
func (r *root) sealEtc() error {
	if len(r.iso.Etc) == 0 {
		return nil
	}
	fd, err := r.inRoot(etc, unix.O_NOFOLLOW)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "make read-only", quote(etc))
	}
	defer unix.Close(fd)
	return fault.Wrap(unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}),
		fault.Internal, "make read-only", quote(etc))
}
