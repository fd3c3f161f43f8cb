// Package privilege owns how a thread gives up what the programs that it starts must not have. Whoever starts programs
// for others imports it, from a thread of its own that is thrown away afterwards: nothing of this can be taken back.
package privilege

import (
	"errors"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// The first thread of a program cannot be thrown away: it would stay, with what it has given up and where it has gone,
// for as long as the program runs. A lock that is taken while packages are initialised holds the main goroutine on that
// thread, and every other goroutine off it.
func init() { runtime.LockOSThread() }

// BoundCapabilities bounds what any program started from the thread can have. The thread's own permitted set stays, a
// fork may need it; execve recomputes it from the bound for root, and setuid empties it for others.
func BoundCapabilities(keep []int) error {
	for c := 0; ; c++ {
		have, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err != nil {
			break // the kernel knows no such capability: that was the last
		}
		if have == 1 && !slices.Contains(keep, c) {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
				return fault.Wrap(err, fault.Internal, "bound", "the capabilities of a new process")
			}
		}
	}
	return DropInheritable()
}

// DropInheritable empties the inheritable set, and with it the ambient one: what the agent was started with would get
// past the bound. A thread that may not bound its capabilities may do this.
func DropInheritable() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&head, &sets[0])
	if err == nil {
		sets[0].Inheritable, sets[1].Inheritable = 0, 0
		err = unix.Capset(&head, &sets[0])
	}
	return fault.Wrap(err, fault.Internal, "bound", "the capabilities of a new process")
}

// ForbidNew lets nothing started from the thread gain privileges, by set-user-id programs or capabilities of files.
func ForbidNew() error {
	return fault.Wrap(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), fault.Internal, "forbid", "new privileges")
}

// HideMemory keeps what the process has in its memory, secrets among it, from core dumps and from other processes of
// its user; root's with the capability to trace are not kept off. It is the process's, not the thread's, and ends with
// execve.
func HideMemory() error {
	return fault.Wrap(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), fault.Internal, "hide", "the memory of the process")
}

// Landlock is the version of Landlock's interface that the kernel has (landlock_create_ruleset(2)); 0: none.
func Landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// ScopesSockets reports whether the kernel can keep a process to its own sockets without a file: Linux 6.12 and later.
func ScopesSockets() bool { return Landlock() >= scopes }

// scopes is the version of Landlock that has scopes.
const scopes = 6

// ScopeSockets lets nothing started from the thread connect to sockets without a file but its own and its children's,
// where the kernel can do that. New privileges have to be forbidden before.
//
// The scope for signals is not set: a command beside a task has a domain of its own, and may send the task signals. Who
// has a pid namespace of its own has nobody else to send them to.
func ScopeSockets() error {
	if !ScopesSockets() {
		return nil
	}
	rules := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)),
		unsafe.Sizeof(rules), 0)
	if errno != 0 {
		return fault.Wrap(errno, fault.Internal, "bound", "the sockets of a new process")
	}
	var err error
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		err = errno
	}
	return fault.Wrap(errors.Join(err, unix.Close(int(fd))), fault.Internal, "bound", "the sockets of a new process")
}
