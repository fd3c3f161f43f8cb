package spawn

import (
	"golang.org/x/sys/unix"

	"berth/internal/base/privilege"
)

// bound takes privileges away from the thread, for good: the child inherits what is left.
func (s *Spec) bound() error {
	if s.Bound == nil {
		return nil
	}
	if err := privilege.BoundCapabilities(s.Bound.Keep); err != nil {
		return err
	}
	if s.Bound.NoNewPrivileges {
		return privilege.ForbidNew()
	}
	return nil
}

// terminalPeer opens the other end of a terminal by its master, without a path that somebody could have replaced.
func terminalPeer(master int) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
