package seccomp

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// allowed are the calls that every program may make: those that act on the caller's own files, memory, processes and
// sockets. Names that an architecture does not have are passed over.
var allowed = strings.Fields(`
	access faccessat faccessat2 chdir fchdir getcwd chroot
	chmod fchmod fchmodat fchmodat2 chown fchown fchownat lchown umask
	creat open openat openat2 close close_range dup dup2 dup3 fcntl flock
	read readv pread64 preadv preadv2 write writev pwrite64 pwritev pwritev2 lseek
	copy_file_range sendfile splice tee vmsplice readahead fadvise64 sync_file_range cachestat
	truncate ftruncate fallocate fsync fdatasync sync syncfs
	stat fstat lstat newfstatat statx statfs fstatfs ustat statmount listmount
	getdents getdents64 link linkat unlink unlinkat rename renameat renameat2 symlink symlinkat readlink readlinkat
	mkdir mkdirat rmdir mknod mknodat utime utimes utimensat futimesat name_to_handle_at
	getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat
	setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
	inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_mark

	brk mmap munmap mremap mprotect madvise mincore msync mlock mlock2 mlockall munlock munlockall mseal
	pkey_alloc pkey_free pkey_mprotect memfd_create memfd_secret membarrier remap_file_pages map_shadow_stack
	get_mempolicy set_mempolicy mbind set_mempolicy_home_node
	shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
	mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr

	fork vfork execve execveat exit exit_group wait4 waitid pause restart_syscall
	getpid getppid gettid getpgid getpgrp setpgid getsid setsid set_tid_address set_robust_list get_robust_list rseq
	arch_prctl prctl set_thread_area get_thread_area uretprobe
	kill tkill tgkill pidfd_open pidfd_send_signal rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending
	rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend rt_sigtimedwait sigaltstack signalfd signalfd4
	futex futex_waitv futex_wake futex_wait futex_requeue
	getuid geteuid getgid getegid getgroups getresuid getresgid setuid setgid setgroups setreuid setregid setresuid
	setresgid setfsuid setfsgid capget capset seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
	lsm_get_self_attr lsm_list_modules
	getpriority setpriority ioprio_get ioprio_set getrlimit setrlimit prlimit64 getrusage times
	sched_yield sched_getparam sched_setparam sched_getscheduler sched_setscheduler sched_getattr sched_setattr
	sched_getaffinity sched_setaffinity sched_get_priority_max sched_get_priority_min sched_rr_get_interval getcpu
	process_madvise process_mrelease

	socketpair bind listen accept accept4 connect getsockname getpeername getsockopt setsockopt shutdown
	send recv sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg
	pipe pipe2 poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
	eventfd eventfd2 io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents

	time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer
	timer_create timer_settime timer_gettime timer_getoverrun timer_delete
	timerfd_create timerfd_settime timerfd_gettime
	adjtimex clock_adjtime uname sysinfo getrandom`)

// refused are calls that are known and not allowed: they act on the node or on other processes, make namespaces, or
// reach parts of the kernel that tasks have no need of and that were broken out of before. clone3 is not among them: a
// filter cannot see its arguments, and for ENOSYS the C libraries take clone.
var refused = strings.Fields(`
	mount umount umount2 pivot_root open_tree open_tree_attr move_mount mount_setattr fsopen fsconfig fsmount fspick
	setns unshare
	add_key request_key keyctl
	bpf perf_event_open userfaultfd
	io_uring_setup io_uring_enter io_uring_register
	ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd
	open_by_handle_at fanotify_init quotactl quotactl_fd
	init_module finit_module delete_module create_module get_kernel_syms query_module kexec_load kexec_file_load
	reboot swapon swapoff acct syslog vhangup
	sethostname setdomainname settimeofday stime clock_settime
	iopl ioperm modify_ldt lsm_set_self_attr
	migrate_pages move_pages lookup_dcookie nfsservctl sysfs _sysctl uselib vserver`)

// namespaces are the flags of clone that make namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// conditions are calls that are allowed with some arguments only; with others they are refused.
var conditions = []condition{
	{name: "clone", matches: []match{{{0, namespaces, 0}}}},
	// Not to the host of a virtual machine, whose agents listen past all networks; not to the kernel's cipher engine,
	// nor to its packet filter.
	{name: "socket", matches: []match{
		{{0, whole, unix.AF_UNIX}},
		{{0, whole, unix.AF_INET}},
		{{0, whole, unix.AF_INET6}},
		{{0, whole, unix.AF_PACKET}},
		{{0, whole, unix.AF_NETLINK}, {2, whole, unix.NETLINK_ROUTE}},
		{{0, whole, unix.AF_NETLINK}, {2, whole, unix.NETLINK_SOCK_DIAG}},
	}},
	// Linux, with 32-bit addresses or an older name or both, and the question which it is.
	{name: "personality", matches: []match{
		{{0, whole, 0}},
		{{0, whole, 0x0008}},
		{{0, whole, 0x20000}},
		{{0, whole, 0x20008}},
		{{0, whole, 0xffffffff}},
	}},
	// Whoever has a loop device open for writing may take its file away: the node gives the device to another image,
	// and the task still has it. Nor is anything typed into a terminal that others read.
	{name: "ioctl", refuses: true, matches: []match{
		{{1, 0xff00, 0x4c00}}, // LOOP_*
		{{1, whole, unix.TIOCSTI}},
		{{1, whole, unix.TIOCLINUX}},
	}},
}

// keptProjects are requests of that would take a file out of its directory's project, and so out of its quota,
// which its owner may: FS_IOC_FSSETXATTR, and FS_IOC_SETFLAGS, of which one flag hands the project on. The call that
// does both by a name of its own, file_setattr, is on no list.
var keptProjects = []match{
	{{1, whole, 0x401c5820}},
	{{1, whole, 0x40086602}},
}

// conditionsOf are the conditions, with or without those that keep files in their projects.
func conditionsOf(keepProjects bool) []condition {
	out := slices.Clone(conditions)
	for i := range out {
		if c := &out[i]; keepProjects && c.name == "ioctl" {
			c.matches = slices.Concat(c.matches, keptProjects)
		}
	}
	return out
}
