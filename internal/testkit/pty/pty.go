// Package pty owns terminals for tests of what people see on one.
package pty

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Run gives use a terminal of so many columns and returns what was written to it, with plain ends of lines.
func Run(t testing.TB, columns int, use func(terminal *os.File)) string {
	t.Helper()
	master, slave, err := open(columns)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	written := make(chan string)
	go func() {
		var b bytes.Buffer
		if _, err := io.Copy(&b, master); err != nil && !errors.Is(err, syscall.EIO) { // EIO: the other end is closed
			t.Errorf("read the terminal: %v", err)
		}
		written <- b.String()
	}()
	use(slave)
	slave.Close()
	return <-written
}

func open(columns int) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			master.Close()
		}
	}()
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlock the terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("number of the terminal: %w", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			slave.Close()
		}
	}()
	how, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		return nil, nil, fmt.Errorf("modes of the terminal: %w", err)
	}
	how.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, how); err != nil {
		return nil, nil, fmt.Errorf("modes of the terminal: %w", err)
	}
	size := &unix.Winsize{Row: 24, Col: uint16(columns)}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, size); err != nil {
		return nil, nil, fmt.Errorf("size of the terminal: %w", err)
	}
	return master, slave, nil
}
