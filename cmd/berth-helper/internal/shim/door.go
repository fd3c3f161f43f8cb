package shim

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// door is the socket at which agents reach the shim.
type door struct {
	path string

	mu       sync.Mutex
	listener *os.File
	at       fileID // of the path's file when it was bound; zero: the path had none
	closed   bool
}

// fileID tells files apart.
type fileID struct{ device, inode uint64 }

// newDoor takes over a descriptor that listens at a path.
func newDoor(path string, listener int) (*door, error) {
	unix.CloseOnExec(listener) // a task that held it would answer for a dead shim
	if err := unix.SetNonblock(listener, true); err != nil {
		return nil, err
	}
	at, _, err := identify(path)
	if err != nil {
		return nil, err
	}
	return &door{path: path, listener: os.NewFile(uintptr(listener), "listener"), at: at}, nil
}

// identify tells which file a path has, and whether it is a socket. Without one the identity is zero.
func identify(path string) (id fileID, socket bool, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fileID{}, false, nil
	}
	if err != nil {
		return fileID{}, false, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return fileID{device: st.Dev, inode: st.Ino}, info.Mode().Type() == fs.ModeSocket, nil
}

// close closes the socket for good; its name stays.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		_ = d.listener.Close() // nothing can be done about it
	}
}

// open returns the listener; nil: the door is closed for good.
func (d *door) open() *os.File {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	return d.listener
}

// renew listens anew if the path's file is another than the socket that was bound there: a copy of the directory that
// was laid over it has sockets at which nobody listens.
func (d *door) renew() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, socket, err := identify(d.path)
	if err != nil || d.closed || at == d.at && socket {
		return err
	}
	if socket {
		if err := os.Remove(d.path); err != nil {
			return err
		}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: d.path}); err == nil {
		err = unix.Listen(fd, backlog)
	}
	listener := os.NewFile(uintptr(fd), "listener")
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if at, _, err = identify(d.path); err != nil {
		return errors.Join(err, listener.Close())
	}
	_ = d.listener.Close() // nobody can reach it any more
	d.listener, d.at = listener, at
	return nil
}

// backlog is how many connections wait to be accepted.
const backlog = 128

// answerCalls listens anew when an agent that does not reach the shim asks for it. What fails is tried again with the
// next call.
func (s *Shim) answerCalls(ctx context.Context, calls <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.quit:
			return nil
		case <-calls:
		}
		_ = s.door.renew() // the agent sees that it still reaches nobody, and calls again
	}
}
