// Package collect owns the helper's role of reading what a task writes whose driver is a program of its own: such a
// driver is given two FIFOs. The shim keeps what this process writes, as it keeps what tasks write that it runs itself.
package collect

import (
	"berth/internal/base/lifecycle"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// Args is how many arguments Run takes.
const Args = 2

// Run passes what comes by two FIFOs on to standard output and standard error, until SIGTERM; then what is left in
// them. It has both ends of them open: a driver may come and go, and no writer is ever without a reader.
func Run(ctx context.Context, stdout, stderr string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT)
	var files []*os.File
	for _, path := range []string{stdout, stderr} {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	g, _ := lifecycle.NewGroup(ctx)
	for i, to := range []*os.File{os.Stdout, os.Stderr} {
		g.Go("output", func() error { return pass(to, files[i]) })
	}
	<-stop
	for _, f := range files {
		if err := f.SetReadDeadline(time.Now()); err != nil {
			return err
		}
	}
	return g.Wait()
}

// pass copies until the deadline, and then what is there.
func pass(to io.Writer, from *os.File) error {
	if _, err := io.Copy(to, from); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n := 0
		if cerr := raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buf) }); cerr != nil {
			return cerr
		}
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n <= 0: // nothing is left
			return nil
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
	}
}
