package shim

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/procs"
	"berth/internal/base/retry"
	"berth/internal/client/shim/serving"
)

// callLimit bounds how long a shim that was called may take to listen anew. One of a version that does not know the
// call never does.
const callLimit = 2 * time.Second

// reach opens a conversation with the alloc's shim. One that lives and cannot be reached is called: a copy of the data
// directory that was laid over it has another socket in the place of its own. errGone: no shim is there.
func (l *Launcher) reach(ctx context.Context, alloc string) (*conn, error) {
	socket := l.socket(alloc)
	c, err := dial(ctx, socket)
	if !errors.Is(err, errGone) {
		return c, err
	}
	pid := serving.PID(l.tree, l.cfg.Slice, alloc, socket)
	if pid == 0 {
		return nil, err
	}
	start, startErr := procs.StartTime(pid)
	if startErr != nil || unix.Kill(pid, unix.SIGHUP) != nil {
		return nil, err // it has ended
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for retry.Sleep(limited, 10*time.Millisecond) {
		c, again := dial(ctx, socket)
		if !errors.Is(again, errGone) {
			return c, again
		}
		if now, gone := procs.StartTime(pid); gone != nil || now != start {
			break
		}
	}
	return nil, err
}
