package instance

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/retry"
	"berth/internal/port/hostfs"
)

// socketWatch tells when something appears in the directories where sockets are awaited: one inotify descriptor for
// all.
type socketWatch struct {
	fd   int
	mu   sync.Mutex
	dirs map[string]bool
}

func newSocketWatch() (*socketWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "watch", "plugin sockets")
	}
	return &socketWatch{fd: fd, dirs: map[string]bool{}}, nil
}

// add watches the directory of a socket. A directory that does not exist (yet) is covered by the retries of its
// instance.
func (w *socketWatch) add(socket string) {
	dir := filepath.Dir(socket)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dirs[dir] {
		return
	}
	if _, err := unix.InotifyAddWatch(w.fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ATTRIB); err == nil {
		w.dirs[dir] = true
	}
}

// run calls tell for every burst of events until ctx ends.
func (w *socketWatch) run(ctx context.Context, tell func()) error {
	defer unix.Close(w.fd)
	stop, release, err := hostfs.StopFD(ctx)
	if err != nil {
		return err
	}
	defer release()
	buf := make([]byte, 16<<10)
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fault.Wrap(err, fault.Internal, "watch", "plugin sockets")
		}
		n, _ := unix.Read(w.fd, buf)
		if n <= 0 {
			continue
		}
		w.forgetRemoved(buf[:n])
		tell()
		// bind(2) shows the socket before listen(2) accepts; a moment later the next look finds it listening.
		if retry.Sleep(ctx, 5*time.Millisecond) {
			tell()
		}
	}
	return nil
}

// forgetRemoved lets a directory that was removed and made again be watched again.
func (w *socketWatch) forgetRemoved(events []byte) {
	for off := 0; off+unix.SizeofInotifyEvent <= len(events); {
		mask := uint32(events[off+4]) | uint32(events[off+5])<<8 | uint32(events[off+6])<<16 | uint32(events[off+7])<<24
		size := int(
			uint32(events[off+12]) | uint32(events[off+13])<<8 | uint32(events[off+14])<<16 | uint32(events[off+15])<<
				24)
		if mask&(unix.IN_IGNORED|unix.IN_DELETE_SELF) != 0 {
			w.mu.Lock()
			w.dirs = map[string]bool{}
			w.mu.Unlock()
		}
		off += unix.SizeofInotifyEvent + size
	}
}
