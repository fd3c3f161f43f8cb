package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/retry"
	"berth/internal/shimproto"
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
	pid := l.living(alloc, socket)
	if pid == 0 {
		return nil, err
	}
	start, startErr := shimproto.StartTime(pid)
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
		if now, gone := shimproto.StartTime(pid); gone != nil || now != start {
			break
		}
	}
	return nil, err
}

// living finds the process of an alloc's shim with a socket, in the cgroup that it was started in; 0: there is none.
func (l *Launcher) living(alloc, socket string) int {
	for _, text := range l.tree.ShimProcesses(l.cfg.Slice, alloc) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			continue
		}
		argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has ended
		}
		args := bytes.Split(bytes.TrimSuffix(argv, []byte{0}), []byte{0})
		if len(args) == 5 && string(args[1]) == "shim" && string(args[4]) == socket {
			return pid
		}
	}
	return 0
}
