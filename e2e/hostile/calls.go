package hostile

import (
	"errors"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ordinary are the calls that every program may make. They are tried as well: a filter that refuses everything would
// refuse the rest, too.
var ordinary = []string{"clone", "socket route", "socket unix", "socket inet"}

// unknown are calls that programs take another way for.
var unknown = []string{"clone3", "a call that there is not", "a call of the other form of this machine"}

// Calls are system calls with arguments for which the kernel has another answer if nothing forbids the call and the
// caller has the privileges for it. What answers is the filter, before the kernel asks for either, whoever calls.
func Calls() []Attempt {
	all := slices.Concat(calls, older)
	out := make([]Attempt, 0, len(all))
	for _, c := range all {
		want := "EPERM"
		switch {
		case slices.Contains(ordinary, c.name):
			want = Allowed
		case slices.Contains(unknown, c.name):
			want = "ENOSYS"
		}
		out = append(out, Attempt{
			Name: "system call: " + c.name,
			Want: []string{want},
			Try:  func() string { return name(c.call()) },
		})
	}
	return out
}

type call struct {
	name string
	call func() unix.Errno
}

// wrong is no length, no flags, no descriptor and no address of anything.
const wrong = ^uintptr(0)

var calls = []call{
	{"unshare user", raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
	{"unshare mounts", raw(unix.SYS_UNSHARE, unix.CLONE_NEWNS)},
	{"unshare cgroup", raw(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)},
	{"clone user", func() unix.Errno { return child(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)) }},
	{"clone network", func() unix.Errno { return child(unix.SYS_CLONE, unix.CLONE_NEWNET|uintptr(unix.SIGCHLD)) }},
	{"clone", func() unix.Errno { return child(unix.SYS_CLONE, uintptr(unix.SIGCHLD)) }},
	{"clone3", func() unix.Errno {
		return child(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&plainClone)), unsafe.Sizeof(plainClone))
	}},
	{"setns", func() unix.Errno {
		fd, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY, 0)
		if err != nil {
			return errno(err)
		}
		return raw(unix.SYS_SETNS, uintptr(fd), 0)()
	}},
	{"mount", func() unix.Errno { return errno(unix.Mount("none", "/mnt", "tmpfs", 0, "")) }},
	{"umount2", func() unix.Errno { return errno(unix.Unmount("/proc/keys", 0)) }},
	{"pivot_root", func() unix.Errno { return errno(unix.PivotRoot("/tmp", "/tmp")) }},
	{"fsopen", pathCall(unix.SYS_FSOPEN, "tmpfs")},
	{"fsconfig", raw(unix.SYS_FSCONFIG, wrong)},
	{"fsmount", raw(unix.SYS_FSMOUNT, wrong)},
	{"fspick", raw(unix.SYS_FSPICK, wrong)},
	{"open_tree_attr", raw(unix.SYS_OPEN_TREE_ATTR, wrong)},
	{"open_tree", func() unix.Errno {
		_, err := unix.OpenTree(unix.AT_FDCWD, "/tmp", unix.OPEN_TREE_CLONE)
		return errno(err)
	}},
	{"move_mount", func() unix.Errno { return errno(unix.MoveMount(unix.AT_FDCWD, "/tmp", unix.AT_FDCWD, "/mnt", 0)) }},
	{"mount_setattr", func() unix.Errno {
		return errno(unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
	}},
	{"keyctl", raw(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(3), 1)}, // the user's keyring
	{"add_key", func() unix.Errno { _, err := unix.AddKey("user", "x", []byte("x"), -3); return errno(err) }},
	{"request_key", func() unix.Errno { _, err := unix.RequestKey("user", "x", "", 0); return errno(err) }},
	{"bpf", raw(unix.SYS_BPF, 0, 0, 0)},
	{"perf_event_open", raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)},
	{"userfaultfd", raw(unix.SYS_USERFAULTFD, 1)}, // of faults in user mode, which needs no privilege
	{"io_uring_setup", raw(unix.SYS_IO_URING_SETUP, 1, 0)},
	{"io_uring_enter", raw(unix.SYS_IO_URING_ENTER, ^uintptr(0))},
	{"io_uring_register", raw(unix.SYS_IO_URING_REGISTER, ^uintptr(0))},
	{"ptrace", raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 0)},
	{"process_vm_readv", raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid()), 0, 0, 0, 0, 0)},
	{"process_vm_writev", raw(unix.SYS_PROCESS_VM_WRITEV, uintptr(os.Getpid()), 0, 0, 0, 0, 0)},
	{"pidfd_getfd", raw(unix.SYS_PIDFD_GETFD, ^uintptr(0))},
	{"kcmp", raw(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid()), 1)},
	{"open_by_handle_at", raw(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(0))},
	{"fanotify_init", raw(unix.SYS_FANOTIFY_INIT, unix.FAN_REPORT_FID)},
	{"quotactl", raw(unix.SYS_QUOTACTL, 0)},
	{"quotactl_fd", raw(unix.SYS_QUOTACTL_FD, wrong)},
	{"init_module", raw(unix.SYS_INIT_MODULE, 0, 0, 0)},
	{"finit_module", raw(unix.SYS_FINIT_MODULE, ^uintptr(0))},
	{"delete_module", pathCall(unix.SYS_DELETE_MODULE, "x")},
	{"kexec_load", raw(unix.SYS_KEXEC_LOAD, 0, 0, 0, wrong)},
	{"kexec_file_load", raw(unix.SYS_KEXEC_FILE_LOAD, wrong, wrong, 0, 0, wrong)},
	{"reboot", raw(unix.SYS_REBOOT, 0)}, // without the numbers that it takes
	{"swapon", raw(unix.SYS_SWAPON, wrong, wrong)},
	{"swapoff", pathCall(unix.SYS_SWAPOFF, "/tmp")},
	{"acct", raw(unix.SYS_ACCT, wrong)},
	{"vhangup", raw(unix.SYS_VHANGUP)}, // of its own terminal, and it has none
	{"syslog", raw(unix.SYS_SYSLOG, 10)},
	{"sethostname", func() unix.Errno { return errno(unix.Sethostname([]byte("x"))) }},
	{"setdomainname", raw(unix.SYS_SETDOMAINNAME, wrong, wrong)},
	{"settimeofday", raw(unix.SYS_SETTIMEOFDAY, wrong)},
	{"clock_settime", raw(unix.SYS_CLOCK_SETTIME, 0, 0)},
	{"migrate_pages", raw(unix.SYS_MIGRATE_PAGES, 0, 0, 0, 0)},
	{"move_pages", raw(unix.SYS_MOVE_PAGES)},
	{"lsm_set_self_attr", raw(unix.SYS_LSM_SET_SELF_ATTR)},
	{"lookup_dcookie", raw(unix.SYS_LOOKUP_DCOOKIE)},
	{"nfsservctl", raw(unix.SYS_NFSSERVCTL)},
	{"personality without randomised addresses", raw(unix.SYS_PERSONALITY, 0x0040000)},
	{"a call that there is not", raw(100000)},
	{"a call of the other form of this machine", raw(0x40000000 + unix.SYS_GETPID)},
	{"socket vsock", raw(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
	{"socket vsock with an upper half", raw(unix.SYS_SOCKET, 1<<32|unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
	{"socket alg", raw(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
	{"socket netfilter", raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
	{"socket route", raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
	{"socket unix", raw(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0)},
	{"socket inet", raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0)},
}

// plainClone are clone3's arguments for a child as fork makes it.
var plainClone = [11]uint64{4: uint64(unix.SIGCHLD)}

func raw(trap uintptr, args ...uintptr) func() unix.Errno {
	return func() unix.Errno {
		var a [6]uintptr
		copy(a[:], args)
		_, _, e := unix.RawSyscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5])
		return e
	}
}

// pathCall makes a call whose first argument is a text.
func pathCall(trap uintptr, text string) func() unix.Errno {
	return func() unix.Errno {
		p, err := unix.BytePtrFromString(text)
		if err != nil {
			return unix.EINVAL
		}
		_, _, e := unix.RawSyscall(trap, uintptr(unsafe.Pointer(p)), 0, 0)
		return e
	}
}

func errno(err error) unix.Errno {
	var e unix.Errno
	if err != nil && !errors.As(err, &e) {
		e = unix.EINVAL
	}
	return e
}

// child makes a call that makes a process, which ends at once.
//
//go:norace
//go:nosplit
func child(trap uintptr, args ...uintptr) unix.Errno {
	var first, second uintptr
	if len(args) > 0 {
		first = args[0]
	}
	if len(args) > 1 {
		second = args[1]
	}
	pid, _, e := unix.RawSyscall(trap, first, second, 0)
	if pid == 0 && e == 0 {
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return e
}
