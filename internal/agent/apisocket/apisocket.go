// Package apisocket owns the unix socket of an agent's API as a file: who may connect, that no other agent has it, and
// that nobody else's file is removed. Only package agent imports it.
package apisocket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/flock"
)

// Socket is the API's unix socket. Its lock file makes sure that one agent alone takes the path from a predecessor that
// died, and its inode that it is never somebody else's socket that is removed.
type Socket struct {
	net.Listener
	path string
	file os.FileInfo
	lock *os.File

	once sync.Once
	err  error
}

// Listen makes the socket, for its owner alone. It takes the place of a socket on which nobody answers, and of
// nothing else.
func Listen(ctx context.Context, path string) (*Socket, error) {
	if err := socketDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	s := &Socket{path: path, lock: lock}
	if err := s.listen(ctx); err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	return s, nil
}

func (s *Socket) listen(ctx context.Context) error {
	if err := s.replace(); err != nil {
		return err
	}
	// The mode of an unbound socket is that of the file which it becomes: at no moment can others connect.
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var modeErr error
		err := raw.Control(func(fd uintptr) { modeErr = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, modeErr)
	}}
	l, err := config.Listen(ctx, "unix", s.path) // it does not wait
	if err != nil {
		return serving(fault.Wrap(err, fault.Internal, "", ""), s.path)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s.Listener = l
	if s.file, err = os.Lstat(s.path); err != nil {
		return errors.Join(serving(err, s.path), l.Close())
	}
	if perm := s.file.Mode().Perm(); perm != 0o600 {
		err := fault.New(fault.Internal, "", "", fmt.Sprintf("its mode is %04o, and must be 0600", perm))
		return errors.Join(serving(err, s.path), s.remove(), l.Close())
	}
	return nil
}

// replace removes a socket that a predecessor left, and refuses to remove anything else.
func (s *Socket) replace() error {
	st, err := os.Lstat(s.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return serving(err, s.path)
	case st.Mode().Type() != os.ModeSocket:
		why := "there is something that is no socket (" + st.Mode().String() + "), which is not removed"
		return serving(fault.New(fault.Conflict, "", "", why), s.path)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).Dial("unix", s.path)
	switch {
	case err == nil:
		err := fault.New(fault.Busy, "", "", "another process answers there")
		return errors.Join(serving(err, s.path), conn.Close())
	case !errors.Is(err, unix.ECONNREFUSED):
		return serving(fault.Wrap(err, fault.Busy, "find out", "who is there"), s.path)
	}
	return serving(os.Remove(s.path), s.path)
}

// serving says what was tried, and the way out.
func serving(err error, path string) error {
	return fault.WithHint(fault.Note(err, "serve the HTTP API on", path),
		"give this agent another path with api { socket = … }")
}

// Close stops listening and removes the socket.
func (s *Socket) Close() error {
	s.once.Do(func() { s.err = errors.Join(s.remove(), s.Listener.Close(), s.unlock()) })
	return s.err
}

// remove removes the socket unless somebody has put another file in its place.
func (s *Socket) remove() error {
	if st, err := os.Lstat(s.path); err != nil || !os.SameFile(st, s.file) {
		return nil // it is gone, or a stranger's
	}
	return removed(s.path)
}

// removed removes a file; one that is gone is removed.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// socketDir makes the directory, and refuses one in which others could put a socket of their own in place of this one.
func socketDir(dir string) error {
	st, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.Chmod(dir, 0o755) // whatever the umask is: clients look into it
		}
		if err == nil {
			st, err = os.Stat(dir)
		}
	}
	refuse := func(err error, way string) error {
		return fault.WithHint(fault.Wrap(err, fault.Denied, "use", "directory "+dir+" of the API's socket"),
			way+"choose another path with api { socket = … }")
	}
	if err != nil {
		return refuse(err, "")
	}
	owner := int(st.Sys().(*syscall.Stat_t).Uid)
	switch {
	case !st.IsDir():
		return refuse(errors.New("it is no directory"), "")
	case owner != 0 && owner != os.Geteuid():
		return refuse(fmt.Errorf("it belongs to user %d, who could put a socket of his own there", owner), "")
	case st.Mode().Perm()&0o022 != 0 && st.Mode()&os.ModeSticky == 0:
		err := fmt.Errorf("its mode %04o lets others put a socket of their own there", st.Mode().Perm())
		return refuse(err, "chmod 755 "+dir+", or ")
	}
	return nil
}

// lockSocket takes the lock file beside the socket. It ends with the process, however that ends.
func lockSocket(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, serving(err, path)
		}
		switch err = takeLock(f); {
		case err == nil:
			return f, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			err = heldBy(f, path)
		}
		if closing := f.Close(); !errors.Is(err, errStale) {
			return nil, errors.Join(serving(err, path), closing)
		}
	}
}

// errStale says that a lock file was removed by its owner while it was opened.
var errStale = errors.New("the lock file is gone")

// takeLock locks the file and writes into it who has it.
func takeLock(f *os.File) error {
	if err := flock.Try(f, unix.LOCK_EX); err != nil {
		return err
	}
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	if st, err := os.Lstat(f.Name()); err != nil || !os.SameFile(st, mine) {
		return errStale
	}
	return flock.Name(f)
}

func heldBy(f *os.File, path string) error {
	who, pid := "another agent", make([]byte, 16)
	if n, err := f.ReadAt(pid, 0); n > 0 && errors.Is(err, io.EOF) {
		who = "the agent of process " + string(bytes.TrimSpace(pid[:n]))
	}
	return fault.New(fault.Busy, "", "", who+" serves there")
}

// unlock gives the path back. The file goes while it is still locked, so that nobody's lock is removed.
func (s *Socket) unlock() error {
	return errors.Join(removed(s.lock.Name()), flock.Release(s.lock))
}
