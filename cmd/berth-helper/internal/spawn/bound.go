package spawn

import (
	"slices"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// bound takes privileges away from the thread, for good: the child inherits what is left.
func (s *Spec) bound() error {
	if s.Bound == nil {
		return nil
	}
	if err := dropCapabilities(s.Bound.Keep); err != nil {
		return fault.Wrap(err, fault.Internal, "bound", "the task's capabilities")
	}
	if s.Bound.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fault.Wrap(err, fault.Internal, "forbid", "new privileges")
		}
	}
	return nil
}

// dropCapabilities bounds what any program started from the thread can have. The thread's own permitted set stays, the
// fork needs it; execve recomputes it from the bound for root, and setuid empties it for others.
func dropCapabilities(keep []int) error {
	for c := 0; ; c++ {
		have, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err != nil {
			break // the kernel knows no such capability: that was the last
		}
		if have == 1 && !slices.Contains(keep, c) {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
				return err
			}
		}
	}
	// An inheritable set that the agent was started with would get past the bound.
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return err
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	return unix.Capset(&head, &sets[0])
}

// terminalPeer opens the other end of a terminal by its master, without a path that somebody could have replaced.
func terminalPeer(master int) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
