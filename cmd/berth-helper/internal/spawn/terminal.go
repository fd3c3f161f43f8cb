package spawn

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Size of a terminal.
type Size struct{ Height, Width int }

// files are the child's descriptors. A terminal is opened here, after the namespaces were entered, so that the task
// finds it below its own /dev/pts.
func (s *Spec) files(c *Child) (fds []uintptr, err error) {
	if s.TTY == nil {
		for _, f := range s.Files {
			fds = append(fds, f.Fd())
		}
		return fds, nil
	}
	master, slave, err := openTerminal(*s.TTY)
	if err != nil {
		return nil, err
	}
	c.Master, c.slave = master, slave
	return []uintptr{uintptr(slave), uintptr(slave), uintptr(slave)}, nil
}

func openTerminal(size Size) (master *os.File, slave int, err error) {
	fail := func(err error) (*os.File, int, error) {
		return nil, -1, fault.Wrap(err, fault.Internal, "open", "a terminal in the task")
	}
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return fail(errors.Join(err, master.Close()))
	}
	slave, err = terminalPeer(fd)
	if err == nil {
		err = Resize(master, size)
	}
	if err != nil {
		return fail(errors.Join(err, master.Close()))
	}
	return master, slave, nil
}

// Resize tells a terminal its size; zero leaves it.
func Resize(master *os.File, size Size) error {
	if size.Height <= 0 || size.Width <= 0 {
		return nil
	}
	raw, err := master.SyscallConn()
	if err != nil {
		return err
	}
	ws := &unix.Winsize{Row: uint16(min(size.Height, 1<<15)), Col: uint16(min(size.Width, 1<<15))}
	var ioctl error
	err = raw.Control(func(fd uintptr) { ioctl = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, ws) })
	return errors.Join(err, ioctl)
}
