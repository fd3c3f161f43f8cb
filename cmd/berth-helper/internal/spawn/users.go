package spawn

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// UserNamespace makes a user namespace whose first shimproto.IDs users and groups are those of the node from first on,
// and returns what holds it. Root of the node has all power in it; nobody is in it.
//
// A process with several threads can neither enter one nor make one for itself, so a child is born in it, and ended
// once the namespace is held.
func UserNamespace(first uint32) (*os.File, error) {
	f, err := userNamespace(first)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) || errors.Is(err, unix.ENOSYS) ||
		errors.Is(err, unix.EINVAL) {
		err = fault.WithHint(fault.Wrap(err, fault.Unsupported, "make", "a user namespace"),
			"the kernel needs CONFIG_USER_NS, and sysctl user.max_user_namespaces large enough")
	}
	return f, fault.Wrap(err, fault.Internal, "make", "a user namespace")
}

func userNamespace(first uint32) (*os.File, error) {
	runtime.LockOSThread() // the child ends with the thread
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return nil, err
	}
	var pid int
	errno := effective(first)
	if errno == 0 {
		pid, errno = forkHolder(&cloneArgs{
			flags:      unix.CLONE_NEWUSER | unix.CLONE_CLEAR_SIGHAND,
			exitSignal: uint64(unix.SIGCHLD),
		}, os.Getpid())
		if back := effective(0); back != 0 {
			runtime.LockOSThread() // for good: nothing else may run on the thread, which ends with its goroutine
			errno = max(errno, back)
		}
	}
	err := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	if pid == 0 {
		return nil, errors.Join(errno, err)
	}
	var f *os.File
	if errno != 0 {
		err = errors.Join(errno, err)
	}
	if err == nil {
		f, err = hold(pid, first)
	}
	_ = unix.Kill(pid, unix.SIGKILL) // it was not waited for, and so is nobody else
	for {
		_, waitErr := unix.Wait4(pid, nil, 0, nil)
		if errors.Is(waitErr, unix.EINTR) {
			continue
		}
		if waitErr != nil && f != nil {
			err = errors.Join(err, f.Close())
		}
		return f, errors.Join(err, waitErr)
	}
}

// effective makes the thread another user's, but for what it may do: whoever makes a user namespace owns it, and to its
// owner the kernel counts what all users of the namespace have of it (watches of files, queues, signals). To count it
// to root would be to let one task use up what the node has.
func effective(uid uint32) unix.Errno {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
		return errno
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&head, &sets[0])
	if err == nil {
		sets[0].Effective, sets[1].Effective = sets[0].Permitted, sets[1].Permitted
		err = unix.Capset(&head, &sets[0])
	}
	errno, _ := errors.AsType[unix.Errno](err)
	return errno
}

// hold writes the maps of a process's user namespace, and opens it.
func hold(pid int, first uint32) (*os.File, error) {
	for _, name := range []string{"gid_map", "uid_map"} {
		path := fmt.Sprintf("/proc/%d/%s", pid, name)
		if err := os.WriteFile(path, fmt.Appendf(nil, "0 %d %d\n", first, shimproto.IDs), 0); err != nil {
			return nil, err
		}
	}
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
}

// forkHolder makes a child that does nothing until it is ended, or its parent has. It returns in the parent alone.
//
//go:norace
//go:nosplit
func forkHolder(args *cloneArgs, parent int) (pid int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	if errno != 0 || r != 0 {
		return int(r), errno
	}
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
	for r, _, _ := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); int(r) == parent; {
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// mapped are the users that a child becomes one of, in a user namespace.
type mapped struct {
	fd   int
	lose []int // capabilities: who enters one has all that there are in it
}

// users prepares how the child enters its user namespace. There it must become one of its users: until then it is the
// node's root, whatever it may do.
func (s *Spec) users() (*mapped, error) {
	if s.Enter == nil || s.Enter.Users == nil {
		return nil, nil
	}
	if s.User == nil || s.Bound == nil {
		return nil, fault.New(fault.Invalid, "enter", "a user namespace", "no user of it, or no bound, is named")
	}
	for _, id := range append([]uint32{s.User.UID, s.User.GID}, s.User.Groups...) {
		if id >= shimproto.IDs {
			return nil, fault.New(fault.Invalid, "enter", "a user namespace", fmt.Sprintf("it has no id %d", id))
		}
	}
	m := &mapped{fd: int(s.Enter.Users.Fd())}
	for c := 0; ; c++ {
		have, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err != nil {
			return m, nil // the kernel knows no such capability: that was the last
		}
		if have == 0 { // the thread is bound already
			m.lose = append(m.lose, c)
		}
	}
}

// enter brings the child into its user namespace. What it was allowed to keep in the node's means nothing there.
//
//go:norace
//go:nosplit
func (m *mapped) enter() (errno unix.Errno) {
	if _, _, errno = unix.RawSyscall(unix.SYS_SETNS, uintptr(m.fd), unix.CLONE_NEWUSER, 0); errno != 0 {
		return errno
	}
	for i := range m.lose {
		_, _, errno = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(m.lose[i]), 0)
		if errno != 0 {
			return errno
		}
	}
	return 0
}

// own gives what was opened for the child alone to its user, as the node counts: a terminal, or the ends of pipes,
// which a program may open again by their names below /proc/self/fd.
func (s *Spec) own(fds []uintptr) error {
	if s.Enter == nil || s.Enter.Users == nil || s.User == nil {
		return nil
	}
	for _, fd := range fds {
		var st unix.Stat_t
		if err := unix.Fstat(int(fd), &st); err != nil {
			return fault.Wrap(err, fault.Internal, "look at", "a descriptor of the task")
		}
		if st.Mode&unix.S_IFMT != unix.S_IFIFO && s.TTY == nil {
			continue // nothing of the node's is given away
		}
		if err := unix.Fchown(int(fd), int(s.Enter.FirstID+s.User.UID), -1); err != nil {
			return fault.Wrap(err, fault.Internal, "give", "a descriptor to the task's user")
		}
	}
	return nil
}
