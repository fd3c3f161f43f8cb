package spawn

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// birth is a child between fork and exec: everything that it does there, in the form in which the kernel takes it.
//
// The standard library's fork has no place for what must be the child's last deed before exec: to load the filter of
// system calls. The thread that forks cannot load it beforehand, because the filter forbids clone3, and clone3 is the
// only call that makes a process within a control group. So the fork is this package's own. The child is a copy of the
// process with one thread: it must not allocate, take a lock, grow its stack or be scheduled, and so does nothing but
// raw system calls from functions without stack checks.
type birth struct {
	path       *byte
	argv, envv []*byte
	dir        *byte
	files      []int // above all numbers that they get
	terminal   bool  // the first file becomes the controlling terminal
	users      *mapped
	user       *user
	mortal     bool // it shall not survive the thread that forks it
	parent     int  // as the child sees it
	confined   bool // its groups are the root of all that it sees of them, and it writes no core dumps
	filter     *unix.SockFprog
	oom        []byte // what is written as its oom_score_adj; empty: nothing

	signals unix.Sigset_t // the mask that the program starts with
	report  int           // where the child says why it did not become the program
	failure [2]uint32     // the step that failed, and its errno
}

// user is whom a child becomes.
type user struct {
	uid, gid uint32
	groups   []uint32
	ambient  []int
	head     unix.CapUserHeader
	sets     [2]unix.CapUserData // of the ambient capabilities
}

// cloneArgs are the arguments of clone3.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// Steps of a birth, as the child reports them. They are named in stepNames.
const (
	stepFork = iota
	stepSession
	stepOOM
	stepGroups
	stepUsers
	stepUser
	stepCapabilities
	stepDirectory
	stepParent
	stepFiles
	stepTerminal
	stepLimits
	stepSignals
	stepFilter
	stepExec
)

var stepNames = [...]string{"fork", "lead a session", "be killed sooner than others", "see its own groups alone",
	"enter its user namespace", "become the user",
	"keep the capabilities", "enter the working directory", "end with the shim", "take over the descriptors",
	"take over the terminal", "limit its core dumps", "unblock signals", "load the filter of system calls", "run"}

// aboveFiles is the lowest number of a file that waits to become one of a child's.
const aboveFiles = 64

// noParent is the failure of a child whose parent has ended meanwhile.
const noParent = unix.ESRCH

// bear forks a child into a control group, with new namespaces as flags say, and returns when its program runs. It has
// to be called on a locked thread with a table of descriptors of its own, which is thrown away afterwards.
func (b *birth) bear(cgroup int, flags uintptr, files []uintptr) (pid int, step int, err error) {
	for _, f := range files {
		fd, err := unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, aboveFiles)
		if err != nil {
			return 0, stepFiles, err
		}
		b.files = append(b.files, fd)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, stepFiles, err
	}
	defer unix.Close(pipe[0])
	b.report, err = unix.FcntlInt(uintptr(pipe[1]), unix.F_DUPFD_CLOEXEC, aboveFiles)
	if err := errors.Join(err, unix.Close(pipe[1])); err != nil {
		return 0, stepFiles, err
	}
	args := &cloneArgs{
		// A handler is the parent's code; what is ignored stays so.
		flags:      uint64(flags) | unix.CLONE_INTO_CGROUP | unix.CLONE_CLEAR_SIGHAND,
		exitSignal: uint64(unix.SIGCHLD),
		cgroup:     uint64(cgroup),
	}
	// A signal that comes while the child is a copy of the parent must not be handled by it, and none may preempt it.
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &b.signals); err != nil {
		return 0, stepSignals, err
	}
	pid, errno := b.fork(args)
	err = errors.Join(unix.PthreadSigmask(unix.SIG_SETMASK, &b.signals, nil), unix.Close(b.report))
	for _, fd := range b.files {
		err = errors.Join(err, unix.Close(fd)) // this thread stays for as long as the child
	}
	if errno != 0 {
		return 0, stepFork, errno
	}
	step, failed := hear(pipe[0])
	if err = errors.Join(err, failed); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL) // it has not been waited for, and so is nobody else
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
	return pid, step, err
}

// hear reads why a child did not become its program; its end of the pipe is closed when it did.
func hear(pipe int) (step int, err error) {
	raw := make([]byte, unsafe.Sizeof(birth{}.failure))
	for {
		n, err := unix.Read(pipe, raw)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return stepExec, err
		case n == 0:
			return 0, nil
		case n < len(raw):
			return stepExec, io.ErrUnexpectedEOF
		default:
			native := binary.NativeEndian
			return int(native.Uint32(raw)), unix.Errno(native.Uint32(raw[4:]))
		}
	}
}

// fork returns in the parent alone.
//
//go:norace
//go:nosplit
func (b *birth) fork(args *cloneArgs) (pid int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	if errno != 0 || r != 0 {
		return int(r), errno
	}
	step, errno := b.child()
	b.failure[0], b.failure[1] = uint32(step), uint32(errno)
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(b.report), uintptr(unsafe.Pointer(&b.failure)),
		unsafe.Sizeof(b.failure))
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// child is all that happens in the child. It returns when the child cannot become its program.
//
//go:norace
//go:nosplit
func (b *birth) child() (step int, errno unix.Errno) {
	if _, _, errno = unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		return stepSession, errno
	}
	if errno = b.score(); errno != 0 {
		return stepOOM, errno
	}
	// It stands in its groups now: a namespace that was made with the others would begin at those of the shim.
	if b.confined {
		if _, _, errno = unix.RawSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP, 0, 0); errno != 0 {
			return stepGroups, errno
		}
	}
	// After all that only root of the node may do, and before anything by which it becomes somebody of that namespace.
	if b.users != nil {
		if errno = b.users.enter(); errno != 0 {
			return stepUsers, errno
		}
	}
	if b.user != nil {
		if step, errno = b.user.become(); errno != 0 {
			return step, errno
		}
	}
	if _, _, errno = unix.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(b.dir)), 0, 0); errno != 0 {
		return stepDirectory, errno
	}
	// After the change of the user, which clears it.
	if b.mortal {
		_, _, errno = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
		if errno != 0 {
			return stepParent, errno
		}
		if r, _, _ := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); int(r) != b.parent {
			return stepParent, noParent
		}
	}
	for i := range b.files {
		if _, _, errno = unix.RawSyscall(unix.SYS_DUP3, uintptr(b.files[i]), uintptr(i), 0); errno != 0 {
			return stepFiles, errno
		}
	}
	if b.terminal {
		if _, _, errno = unix.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1); errno != 0 {
			return stepTerminal, errno
		}
	}
	return b.become()
}

// oomFile is what the score is written into, as the kernel takes a path.
var oomFile = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'o', 'o', 'm', '_', 's', 'c', 'o', 'r',
	'e', '_', 'a', 'd', 'j', 0}

// score makes the kernel kill the child sooner than others when the node is out of memory.
//
//go:norace
//go:nosplit
func (b *birth) score() unix.Errno {
	if len(b.oom) == 0 {
		return 0
	}
	cwd := unix.AT_FDCWD
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(cwd), uintptr(unsafe.Pointer(&oomFile)),
		unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	_, _, errno = unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&b.oom[0])), uintptr(len(b.oom)))
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	return errno
}

// become turns the child into its program.
//
//go:norace
//go:nosplit
func (b *birth) become() (step int, errno unix.Errno) {
	if b.confined {
		var none unix.Rlimit
		_, _, errno = unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&none)), 0, 0, 0)
		if errno != 0 {
			return stepLimits, errno
		}
	}
	_, _, errno = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.signals)), 0,
		kernelSigset, 0, 0)
	if errno != 0 {
		return stepSignals, errno
	}
	if b.filter != nil {
		_, _, errno = unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
			uintptr(unsafe.Pointer(b.filter)))
		if errno != 0 {
			return stepFilter, errno
		}
	}
	_, _, errno = unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(b.path)),
		uintptr(unsafe.Pointer(&b.argv[0])), uintptr(unsafe.Pointer(&b.envv[0])))
	return stepExec, errno
}

// kernelSigset is the size of the kernel's set of signals; the C library's is larger.
const kernelSigset = 8

// become makes the child the user's, with the ambient capabilities and no others.
//
//go:norace
//go:nosplit
func (u *user) become() (step int, errno unix.Errno) {
	if len(u.ambient) > 0 {
		if _, _, errno = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); errno != 0 {
			return stepCapabilities, errno
		}
	}
	var groups uintptr
	if len(u.groups) > 0 {
		groups = uintptr(unsafe.Pointer(&u.groups[0]))
	}
	if _, _, errno = unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(u.groups)), groups, 0); errno != 0 {
		return stepUser, errno
	}
	if _, _, errno = unix.RawSyscall(unix.SYS_SETGID, uintptr(u.gid), 0, 0); errno != 0 {
		return stepUser, errno
	}
	if _, _, errno = unix.RawSyscall(unix.SYS_SETUID, uintptr(u.uid), 0, 0); errno != 0 {
		return stepUser, errno
	}
	if len(u.ambient) == 0 {
		return 0, 0
	}
	_, _, errno = unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&u.head)),
		uintptr(unsafe.Pointer(&u.sets[0])), 0)
	if errno != 0 {
		return stepCapabilities, errno
	}
	for i := range u.ambient {
		_, _, errno = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE,
			uintptr(u.ambient[i]), 0, 0, 0)
		if errno != 0 {
			return stepCapabilities, errno
		}
	}
	return 0, 0
}

// birth prepares what the child does.
func (s *Spec) birth(path string) (*birth, error) {
	b := &birth{terminal: s.TTY != nil}
	if s.OOM != 0 {
		b.oom = strconv.AppendInt(nil, int64(s.OOM), 10)
	}
	var err, e error
	if b.path, err = unix.BytePtrFromString(path); err != nil {
		return nil, err
	}
	if b.dir, e = unix.BytePtrFromString(s.Dir); e != nil {
		return nil, e
	}
	b.argv, err = syscall.SlicePtrFromStrings(s.Argv)
	b.envv, e = syscall.SlicePtrFromStrings(s.Env)
	if err := errors.Join(err, e); err != nil {
		return nil, err
	}
	// A child in another pid namespace dies with that namespace's init. Who is that init sees no parent.
	b.mortal = s.Enter == nil || s.Enter.Flags&unix.CLONE_NEWPID == 0
	if s.Clone&unix.CLONE_NEWPID == 0 {
		b.parent = os.Getpid()
	}
	if s.User != nil {
		b.user = &user{
			uid:    s.User.UID,
			gid:    s.User.GID,
			groups: s.User.Groups,
			head:   unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3},
		}
	}
	if b.users, err = s.users(); err != nil || s.Bound == nil {
		return b, err
	}
	b.confined = s.Bound.NoNewPrivileges
	b.filter, err = program(s.Bound.Filter)
	if b.user != nil && s.User.UID != 0 {
		b.user.keep(s.Bound.Ambient)
	}
	return b, err
}

// keep lets the user have capabilities that only root would have.
func (u *user) keep(ambient []int) {
	u.ambient = ambient
	for _, c := range ambient {
		set := &u.sets[c/32]
		set.Permitted |= 1 << (c % 32)
		set.Inheritable, set.Effective = set.Permitted, set.Permitted
	}
}

// program brings the instruction words of a filter into the kernel's form; no words are no filter.
func program(words []byte) (*unix.SockFprog, error) {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	n := len(words) / size
	if len(words) == 0 {
		return nil, nil
	}
	if n == 0 || len(words)%size != 0 || n > maxFilter {
		return nil, fault.New(fault.Invalid, "load", "the filter of system calls",
			"it has no form that the kernel takes")
	}
	out := make([]unix.SockFilter, n)
	for i := range out {
		w := words[i*size:]
		out[i] = unix.SockFilter{
			Code: binary.NativeEndian.Uint16(w),
			Jt:   w[2],
			Jf:   w[3],
			K:    binary.NativeEndian.Uint32(w[4:]),
		}
	}
	return &unix.SockFprog{Len: uint16(n), Filter: &out[0]}, nil
}

// maxFilter is how many instructions the kernel takes (BPF_MAXINSNS).
const maxFilter = 4096
