package spawn

import (
	"errors"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
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
	if !s.Bound.NoNewPrivileges {
		return nil // it acts on the node
	}
	if err := freshKeyring(); err != nil {
		return err
	}
	if err := privilege.ForbidNew(); err != nil {
		return err
	}
	if s.Bound.Writable == nil {
		return privilege.ScopeSockets()
	}
	return privilege.WallFiles(s.Bound.Writable)
}

// freshKeyring gives the thread a session keyring that nobody else has. It is root's, so that many tasks of one user do
// not use up that user's keys.
func freshKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return nil // a kernel without keys, or a container that keeps them from all that runs in it
	}
	return fault.Wrap(err, fault.Internal, "make", "the session keyring of a new process")
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
