package shim

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/hostfs"
)

// watchDir calls notify whenever a name appears in a directory or disappears from it, until ctx ends. It is a help, not
// a promise: the kernel may have no watch to give.
func watchDir(ctx context.Context, dir string, notify func()) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fault.Wrap(err, fault.Exhausted, "watch", dir)
	}
	defer unix.Close(fd)
	const names = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE
	if _, err := unix.InotifyAddWatch(fd, dir, names); err != nil {
		return fault.Wrap(err, fault.Exhausted, "watch", dir)
	}
	stop, release, err := hostfs.StopFD(ctx)
	if err != nil {
		return err
	}
	defer release()
	buf := make([]byte, 16<<10)
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fault.Wrap(err, fault.Internal, "watch", dir)
		}
		if n, _ := unix.Read(fd, buf); n > 0 { // what happened is not reported: who listens looks at everything
			notify()
		}
	}
	return nil
}
