package hostile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// empty is the answer of a place that is shown with nothing in it.
const empty = "empty"

// hidden are the answers of what is not there, is masked, or is not this user's.
var hidden = []string{"ENOENT", "EACCES", "EPERM", empty}

// readOnly are the answers of what is shown and cannot be changed.
var readOnly = []string{"EROFS", "EACCES", "EPERM", "ENOENT"}

// files of the node, of other allocs, of the kernel.
func files(s Site) []Attempt {
	out := []Attempt{
		{"file: what the task's first process has open", hidden, openedBy("1")},
		{"file: write over the program of the task's first process", append(slices.Clone(hidden), "ETXTBSY", "EROFS"),
			func() string { return writable("/proc/1/exe") }},
		{"file: the agent's data_dir", []string{"ENOENT"}, look(s.Data)},
		{"file: secrets of another alloc by its path", []string{"ENOENT"}, look(s.Data + "/alloc/" + s.Victim)},
		{"file: another alloc by dots from its own", []string{"ENOENT"}, look("/alloc/../../" + s.Victim)},
		{"file: out of the root by chroot and back", []string{"the same root", "EPERM"}, act("chroot")},
		{"file: a hard link out of the secrets", []string{"EXDEV"}, linkSecret},
		{"file: a hard link to a program of the node", []string{"EXDEV", "EPERM"}, func() string {
			return answer(unix.Link("/usr/bin/env", "/alloc/data/env"))
		}},
		{"file: rename the directory of logs", []string{"EBUSY", "EACCES", "EPERM"}, func() string {
			return answer(unix.Rename("/alloc/logs", "/alloc/gone"))
		}},
		{"file: a link in place of a log", readOnly, func() string {
			return answer(unix.Symlink("/etc/passwd", "/alloc/logs/t.stdout.1"))
		}},
		{"file: one that nobody can remove", []string{"EPERM", "EOPNOTSUPP", "ENOTTY"}, immutable},
		{"file: an attribute for the kernel's own use", []string{"EPERM", "EOPNOTSUPP"}, func() string {
			return answer(onFile(func(path string) error { return unix.Setxattr(path, "trusted.x", []byte("x"), 0) }))
		}},
	}
	for _, path := range []string{"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/berth",
		"/etc/kubernetes", "/etc/wireguard", "/root", "/home", "/boot", "/var/lib", "/var/log", "/run/berth",
		"/proc/1/root/etc/shadow", "/proc/1/cwd/etc/shadow", "/proc/1/environ", "/proc/1/mem",
		"/proc/1/map_files", "/proc/kmsg"} {
		out = append(out, Attempt{"file: read " + path, hidden, look(path)})
	}
	for _, path := range []string{"/etc/passwd", "/usr/lib/os-release"} {
		out = append(out, Attempt{"file: write " + path, readOnly, func() string { return writable(path) }})
	}
	return append(out, Kernel()...)
}

// Masked are files and directories, of kernels of all kinds, through which a task could watch the node: it sees nothing
// in them.
var Masked = []string{"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore",
	"/proc/key-users", "/proc/keys", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags",
	"/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
	"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/fs/bpf", "/sys/fs/fuse/connections", "/sys/kernel/debug",
	"/sys/kernel/security", "/sys/kernel/tracing"}

// Sealed are those through which a task could change the node: it may read them.
var Sealed = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// Kernel are attempts at what the kernel shows of itself.
func Kernel() []Attempt {
	var out []Attempt
	for _, path := range Masked {
		out = append(out, Attempt{"file: read " + path, hidden, look(path)})
	}
	for _, path := range append([]string{"/sys/kernel", "/sys/power"}, Sealed...) {
		out = append(out, Attempt{"file: write any of " + path, append([]string{empty}, readOnly...), func() string {
			return anyWritable(path)
		}})
	}
	return out
}

// look reads of a file or a directory.
func look(path string) func() string {
	return func() string {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return answer(err)
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		names, err := f.Readdirnames(1)
		if errors.Is(err, unix.ENOTDIR) {
			var n int
			if n, err = f.Read(make([]byte, 1)); n > 0 {
				return Allowed
			}
		}
		if errors.Is(err, io.EOF) && len(names) == 0 {
			return empty
		}
		return answer(err)
	}
}

// writable opens a file for writing, and writes nothing.
func writable(path string) string {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd) // nothing was written
	}
	return answer(err)
}

// anyWritable opens every file below a directory for writing, and names the first that it may write.
func anyWritable(dir string) string {
	last := empty
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil && path == dir {
			return err
		}
		if err != nil || entry.Type()&(fs.ModeDir|fs.ModeSymlink) != 0 {
			return nil // not to be read: not to be written either
		}
		if last = writable(path); last == Allowed {
			last += ": " + path
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil {
		return answer(err)
	}
	return last
}

// inherited are descriptors beyond the standard ones that are not of this program's runtime, which reads how much of
// the processors its control group has. It is the first attempt: later ones open what they try.
func inherited() string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return answer(err)
	}
	found := []string{}
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && (len(e.Name()) > 1 || e.Name() > "2") && !strings.HasPrefix(to, "anon_inode:") &&
			!strings.HasPrefix(to, "/sys/fs/cgroup/cpu") {
			found = append(found, e.Name()+" at "+to)
		}
	}
	if len(found) == 0 {
		return "none"
	}
	return strings.Join(found, ", ")
}

// openedBy names a file that another process has open.
func openedBy(process string) func() string {
	return func() string {
		last := empty
		for n := range 1024 {
			to, err := os.Readlink(filepath.Join("/proc", process, "fd", strconv.Itoa(n)))
			if err == nil {
				return Allowed + ": " + to
			}
			if !errors.Is(err, unix.ENOENT) || last == empty {
				last = answer(err)
			}
		}
		return last
	}
}

// onFile makes a file of the task's own, tries something with it and removes it.
func onFile(try func(path string) error) error {
	f, err := os.CreateTemp("/alloc/data", "x")
	if err != nil {
		return err
	}
	return errors.Join(try(f.Name()), f.Close(), os.Remove(f.Name()))
}

func linkSecret() string {
	if err := os.WriteFile("/secrets/own", []byte("x"), 0o600); err != nil {
		return answer(err)
	}
	return answer(unix.Link("/secrets/own", "/alloc/data/own"))
}

// The flag of a file that cannot be changed or removed (chattr +i).
const immutableFlag = 0x10

func immutable() string {
	return answer(onFile(func(path string) error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, immutableFlag), unix.Close(fd))
	}))
}

// devices of the node, by the names that it has for them and by their numbers.
func devices(s Site) []Attempt {
	out := []Attempt{
		{"device: make the disk of the data_dir", []string{"EPERM"}, makeNode(unix.S_IFBLK, int(s.Disk))},
		{"device: make the memory", []string{"EPERM"}, makeNode(unix.S_IFCHR, int(unix.Mkdev(1, 1)))},
		{"device: make the log of the kernel", []string{"EPERM"}, makeNode(unix.S_IFCHR, int(unix.Mkdev(1, 11)))},
	}
	for _, path := range []string{"/dev/mem", "/dev/port", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun",
		"/dev/loop-control", "/dev/loop0", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mapper/control",
		"/dev/vhost-net", "/dev/vsock", "/dev/cpu/0/msr", "/dev/uinput"} {
		out = append(out, Attempt{"device: open " + path, []string{"ENOENT"}, func() string { return writable(path) }})
	}
	return out
}

// makeNode makes a device and opens it.
func makeNode(kind uint32, device int) func() string {
	return func() string {
		const path = "/tmp/device"
		if err := unix.Mknod(path, kind|0o666, device); err != nil {
			return answer(err)
		}
		return "made; open: " + writable(path)
	}
}
