package initstage

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// root is a task's root while it is built.
type root struct {
	iso   *shimproto.Isolate
	fd    int // of its top mount
	trees []tree
	links []link // of the task's /etc
	users int    // the task's user namespace; -1: the node's
	etc   int    // the task's /etc, until it is sealed; 0: it has none of its own
	empty int    // an empty read-only directory that hides others; 0: none was needed yet
}

// tree is a detached mount that waits to be attached.
type tree struct {
	fd     int
	dir    bool
	target string
	bind   *shimproto.Bind
	system bool
}

// Propagation values of mount_setattr.
var propagations = map[string]uint64{"": unix.MS_PRIVATE, "private": unix.MS_PRIVATE, "slave": unix.MS_SLAVE,
	"shared": 0}

// confined are the attributes of everything shown to a task that must not gain privileges.
func (r *root) confined() uint64 {
	if !r.iso.NoNewPrivileges {
		return 0
	}
	return unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
}

// collect clones every tree of the node that the task shall see. That comes first: once the namespace's own mounts are
// private, their clones could not propagate to the node any more.
func (r *root) collect() error {
	for _, p := range r.iso.System {
		if p == etc && len(r.iso.Etc) > 0 {
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
			continue // absent, or a link that the skeleton repeats
		}
		if err := r.add(shimproto.Bind{Source: p, Target: p, ReadOnly: true}, true); err != nil {
			return err
		}
	}
	if err := r.collectEtc(); err != nil {
		return err
	}
	if r.iso.HostDevices {
		if err := r.add(shimproto.Bind{Source: "/dev", Target: "/dev"}, true); err != nil {
			return err
		}
	}
	for _, b := range r.iso.Binds {
		if err := r.add(b, false); err != nil {
			return err
		}
	}
	for _, d := range r.iso.Devices {
		if r.iso.HostDevices && d.HostPath == d.TaskPath {
			continue
		}
		if err := r.addDevice(d); err != nil {
			return err
		}
	}
	for _, b := range r.iso.Cgroups { // their numbers stay the node's: the task reads them, as everybody may
		if err := r.addTree(b, false, false); err != nil {
			return err
		}
	}
	return nil
}

func (r *root) add(b shimproto.Bind, system bool) error { return r.addTree(b, system, r.users >= 0) }

// addTree clones a tree; its numbers of users and groups are shifted for the task's user namespace where asked for.
func (r *root) addTree(b shimproto.Bind, system, shift bool) error {
	if _, ok := propagations[b.Propagation]; !ok {
		return fault.New(fault.Invalid, "mount", quote(b.Source), "propagation "+quote(b.Propagation)+" is not known")
	}
	fd, dir, err := clone(b.Source)
	if err != nil {
		return err
	}
	return r.keep(tree{
		fd:     fd,
		dir:    dir,
		target: b.Target,
		bind:   &b,
		system: system,
	}, shift)
}

// keep notes a cloned tree that waits to be attached, and restricts it.
func (r *root) keep(t tree, shift bool) error {
	b := t.bind
	if shift {
		var err error
		if t.fd, err = r.shift(t.fd, b); err != nil {
			return err
		}
	}
	attrs, propagation := r.confined(), propagations[b.Propagation]
	if b.ReadOnly {
		attrs |= unix.MOUNT_ATTR_RDONLY
	}
	if !t.dir || b.Source == "/dev" {
		attrs &^= unix.MOUNT_ATTR_NODEV // a block volume is a device node bound as a file
	}
	if attrs != 0 || propagation != 0 {
		if err := restrict(t.fd, attrs, propagation); err != nil {
			return fault.Wrap(err, fault.Internal, "restrict mount of", quote(b.Source))
		}
	}
	r.trees = append(r.trees, t)
	return nil
}

func (r *root) addDevice(d shimproto.Device) error {
	var st unix.Stat_t
	if err := unix.Stat(d.HostPath, &st); err != nil {
		return fault.Wrap(err, fault.Invalid, "show", "device "+quote(d.HostPath))
	}
	if k := st.Mode & unix.S_IFMT; k != unix.S_IFCHR && k != unix.S_IFBLK {
		return fault.New(fault.Invalid, "show", "device "+quote(d.HostPath), "it is not a device node")
	}
	return r.add(shimproto.Bind{Source: d.HostPath, Target: d.TaskPath}, false)
}

// mountRoot makes the namespace's mounts private and puts a small memory file system over the empty directory.
func (r *root) mountRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fault.Wrap(err, fault.Internal, "make private", "the task's mount namespace")
	}
	fd, err := fresh("tmpfs", int(r.confined()), "mode=0755", "size=64m")
	if err != nil {
		return err
	}
	r.fd = fd
	return fault.Wrap(unix.MoveMount(fd, "", unix.AT_FDCWD, r.iso.Root, unix.MOVE_MOUNT_F_EMPTY_PATH), fault.Internal,
		"mount the task's root at", quote(r.iso.Root))
}

// directories that programs expect and that hold nothing of the node.
var skeleton = []struct {
	path string
	mode uint32
}{
	{"dev", 0o755}, {"proc", 0o555}, {"sys", 0o555}, {"tmp", 0o1777}, {"run", 0o755}, {"var", 0o755}, {"var/tmp",
		0o1777},
	{"var/lib", 0o755}, {"var/log", 0o755}, {"var/cache", 0o755}, {"root", 0o700}, {"home", 0o755}, {"mnt", 0o755},
	{"srv", 0o755},
}

func (r *root) skeleton() error {
	unix.Umask(0)
	for _, d := range skeleton {
		if err := unix.Mkdirat(r.fd, d.path, d.mode); err != nil {
			return fault.Wrap(err, fault.Internal, "make", quote("/"+d.path)+" of the task's root")
		}
	}
	unix.Umask(0o022)
	if err := unix.Symlinkat("../run", r.fd, "var/run"); err != nil {
		return fault.Wrap(err, fault.Internal, "make", `"/var/run" of the task's root`)
	}
	for _, p := range r.iso.System {
		to, err := os.Readlink(p)
		if err != nil {
			continue // not a link
		}
		if err := unix.Symlinkat(to, r.fd, path.Clean(p)[1:]); err != nil {
			return fault.Wrap(err, fault.Internal, "repeat", "link "+quote(p)+" in the task's root")
		}
	}
	return nil
}

// hidden are the node's secrets within the distribution's directories.
var hidden = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/berth", "/etc/berth.d",
	"/etc/ssl/private"}

// hides are those of them of which the agent shows nothing by name.
func (r *root) hides() []string {
	return slices.DeleteFunc(slices.Clone(hidden), func(p string) bool {
		return slices.ContainsFunc(r.iso.Etc, func(shown string) bool {
			return strings.HasPrefix(path.Join(etc, shown)+"/", p+"/")
		})
	})
}

func (r *root) attachSystem() error {
	if err := r.makeEtc(); err != nil {
		return err
	}
	for _, t := range r.trees {
		if !t.system {
			continue
		}
		if err := r.attachOne(t); err != nil {
			return err
		}
	}
	return nil
}

// attachOne mounts a tree of the system.
func (r *root) attachOne(t tree) error {
	name, ok := strings.CutPrefix(t.target, etc+"/")
	if !ok || r.etc == 0 || strings.Contains(name, "/") {
		return r.attach(t.fd, t.target, t.dir)
	}
	return r.attachEtc(t, name)
}

// attachBinds mounts what the job asked for, in order, over everything else.
func (r *root) attachBinds() error {
	for _, t := range r.trees {
		if t.system {
			continue
		}
		if err := r.attach(t.fd, t.target, t.dir); err != nil {
			return err
		}
		if t.bind.Propagation != "shared" {
			continue
		}
		shared, err := r.shared(t.target)
		if err != nil {
			return fault.Wrap(err, fault.Internal, "look at", "mount "+quote(t.target))
		}
		if !shared {
			return fault.WithHint(
				fault.New(fault.Conflict, "mount", quote(t.bind.Source),
					"it asks for bidirectional propagation and lies on no shared mount of the node"),
				"mount --bind and mount --make-shared it on the node first")
		}
	}
	return nil
}

// pivot makes the built tree the root and detaches the node's.
func (r *root) pivot() error {
	err := unix.Fchdir(r.fd)
	if err == nil {
		err = unix.PivotRoot(".", ".")
	}
	if err == nil {
		err = unix.Unmount(".", unix.MNT_DETACH)
	}
	if err == nil {
		err = unix.Chdir("/")
	}
	err = errors.Join(err, unix.Close(r.fd))
	if r.empty != 0 {
		err = errors.Join(err, unix.Close(r.empty))
	}
	return fault.Wrap(err, fault.Internal, "enter", "the task's root")
}
