package allocdir

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"berth/internal/base/lifecycle"
)

// errDone ends a wait because what is followed will not grow any more.
var errDone = errors.New("done")

// watch waits for changes in one directory, told by the kernel.
type watch struct {
	f      *os.File
	events chan struct{}
	group  *lifecycle.Group
}

func watchDir(dir string) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, classify(err, "watch", dir)
	}
	f := os.NewFile(uintptr(fd), "inotify "+dir)
	const mask = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM |
		unix.IN_DELETE_SELF | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil {
		_ = f.Close() // never read from
		return nil, classify(err, "watch", dir)
	}
	return &watch{f: f, events: make(chan struct{}, 1)}, nil
}

// wait returns at the next change, with errDone when done is closed, or at the end of ctx.
func (w *watch) wait(ctx context.Context, done <-chan struct{}) error {
	if w.group == nil {
		w.group, _ = lifecycle.NewGroup(ctx)
		w.group.Go("read inotify", w.read)
	}
	select {
	case <-w.events:
		return nil
	case <-done:
		return errDone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read turns events into wake-ups until the watch is closed.
func (w *watch) read() error {
	buf := make([]byte, 4096)
	for {
		if _, err := w.f.Read(buf); err != nil {
			return nil // closed
		}
		select {
		case w.events <- struct{}{}:
		default: // the waiter looks again anyway
		}
	}
}

func (w *watch) close() {
	_ = w.f.Close() // ends read
	if w.group != nil {
		_ = w.group.Wait() // read returns no error
	}
}
