package hostfs

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// tableRest gathers a burst of changes of the mount table into one notice.
const tableRest = 50 * time.Millisecond

// WatchTable calls changed when it begins to watch, and after every change of the mount table of this process's
// namespace until ctx ends. Bursts are gathered; no change goes unnoticed, whenever it was made.
func WatchTable(ctx context.Context, changed func()) error {
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "watch", "the mount table")
	}
	defer unix.Close(table)
	stop, release, err := StopFD(ctx)
	if err != nil {
		return err
	}
	defer release()
	changed() // what was changed before the table was opened is reported by nobody else
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}, {Fd: int32(stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fault.Wrap(err, fault.Internal, "watch", "the mount table")
		}
		if fds[0].Revents == 0 {
			continue
		}
		t := time.NewTimer(tableRest)
		select {
		case <-ctx.Done():
		case <-t.C:
			changed()
		}
		t.Stop()
	}
	return nil
}

// StopFD returns a descriptor that becomes readable when ctx ends, for use in poll. Release it when the poll is over.
func StopFD(ctx context.Context) (fd int, release func(), err error) {
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return -1, nil, fault.Wrap(err, fault.Internal, "make", "an event descriptor")
	}
	reported := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		defer close(reported)
		_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an event descriptor takes one
	})
	return fd, func() {
		if !end() {
			<-reported // else the number could belong to another file when it is written
		}
		_ = unix.Close(fd)
	}, nil
}
