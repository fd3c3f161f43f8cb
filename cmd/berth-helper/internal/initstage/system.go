package initstage

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// devices of a minimal /dev: major, minor.
var devices = []struct {
	name  string
	major uint32
	minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

// links of a minimal /dev.
var links = []struct{ name, to string }{
	{"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"core", "/proc/kcore"},
}

// mountDev makes the task's own /dev, unless it was given the node's.
func (r *root) mountDev() error {
	if r.iso.HostDevices {
		return nil
	}
	fail := func(err error, name string) error {
		return fault.Wrap(err, fault.Internal, "make", `"/dev/`+name+`" of the task's root`)
	}
	dev, err := fresh("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "mode=0755", "size=1m")
	if err != nil {
		return err
	}
	unix.Umask(0)
	defer unix.Umask(0o022)
	for _, d := range devices {
		if err := unix.Mknodat(dev, d.name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fail(err, d.name)
		}
	}
	for _, l := range links {
		if err := unix.Symlinkat(l.to, dev, l.name); err != nil {
			return fail(err, l.name)
		}
	}
	for _, name := range []string{"pts", "shm", "mqueue"} {
		if err := unix.Mkdirat(dev, name, 0o755); err != nil {
			return fail(err, name)
		}
	}
	if err := r.attach(dev, "/dev", true); err != nil {
		return err
	}
	quiet := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	return errors.Join(
		r.mountFresh("/dev/pts", "devpts", quiet, "newinstance", "ptmxmode=0666", "mode=0620", "max="+terminals,
			"gid="+strconv.FormatUint(uint64(r.iso.FirstID)+5, 10)),
		r.mountFresh("/dev/shm", "tmpfs", quiet|unix.MOUNT_ATTR_NODEV, "mode=1777", "size=64m"),
		r.mountFresh("/dev/mqueue", "mqueue", quiet|unix.MOUNT_ATTR_NODEV),
	)
}

// terminals bounds those of a task: the node's own number of them is shared by all.
const terminals = "128"

func (r *root) mountFresh(target, kind string, attrs int, options ...string) error {
	fd, err := fresh(kind, attrs, options...)
	if err != nil {
		if errors.Is(err, unix.ENODEV) && kind == "mqueue" {
			return nil // a kernel without message queues
		}
		return err
	}
	return r.attach(fd, target, true)
}

// Paths of /proc and /sys through which the node could be watched or changed.
var (
	maskedProc = []string{"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/key-users", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/proc/kallsyms",
		"/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup"}
	readOnlyProc = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	maskedSys    = []string{"/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security",
		"/sys/devices/virtual/powercap", "/sys/fs/bpf", "/sys/fs/fuse/connections"}
)

func (r *root) mountProc() error {
	if err := r.mountFresh("/proc", "proc",
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return err
	}
	return r.coverProc()
}

// coverProc hides what the node keeps to itself, and seals what is for all of it.
func (r *root) coverProc() error {
	if !r.iso.NoNewPrivileges {
		return nil // a storage plugin acts on the node itself
	}
	for _, p := range append(r.hides(), maskedProc...) {
		if err := r.mask(p); err != nil {
			return err
		}
	}
	for _, p := range readOnlyProc {
		if err := r.readOnly(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *root) mountSys() error {
	attrs := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	if r.iso.NoNewPrivileges {
		attrs |= unix.MOUNT_ATTR_RDONLY
	}
	if err := r.mountFresh("/sys", "sysfs", attrs); err != nil {
		return err
	}
	if err := r.coverSys(); err != nil {
		return err
	}
	if len(r.iso.Cgroups) == 0 || r.iso.Cgroups[0].Target == "/sys/fs/cgroup" {
		return nil
	}
	return r.mountFresh("/sys/fs/cgroup", "tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
		"mode=0755", "size=64k")
}

func (r *root) coverSys() error {
	if !r.iso.NoNewPrivileges {
		return nil
	}
	for _, p := range maskedSys {
		if err := r.mask(p); err != nil {
			return err
		}
	}
	return nil
}

// mask hides a path, if there is one: a file behind /dev/null, a directory behind an empty read-only one.
func (r *root) mask(p string) error {
	fd, err := r.inRoot(p, unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "mask", quote(p))
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault.Wrap(err, fault.Internal, "mask", quote(p))
	}
	var cover int
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil
	case unix.S_IFDIR:
		cover, err = r.emptyDir()
	default:
		cover, err = unix.OpenTree(r.fd, "dev/null", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "mask", quote(p))
	}
	if cover != r.empty {
		defer unix.Close(cover)
	}
	return fault.Wrap(unix.MoveMount(cover, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH),
		fault.Internal, "mask", quote(p))
}

// emptyDir returns an empty read-only directory as a tree: one memory file system for all of them. The first keeps its
// descriptor, which what is mounted already can be cloned by.
func (r *root) emptyDir() (int, error) {
	if r.empty != 0 {
		return unix.OpenTree(r.empty, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	}
	fd, err := fresh("tmpfs",
		unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, "mode=0555",
		"size=4k")
	if err == nil {
		r.empty = fd
	}
	return fd, err
}

// readOnly mounts a path, if there is one, over itself, read-only.
func (r *root) readOnly(p string) error {
	fd, err := r.inRoot(p, unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "make read-only", quote(p))
	}
	defer unix.Close(fd)
	over, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "make read-only", quote(p))
	}
	defer unix.Close(over)
	if err := restrict(over, unix.MOUNT_ATTR_RDONLY, 0); err != nil {
		return fault.Wrap(err, fault.Internal, "make read-only", quote(p))
	}
	return fault.Wrap(unix.MoveMount(over, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH),
		fault.Internal, "make read-only", quote(p))
}
