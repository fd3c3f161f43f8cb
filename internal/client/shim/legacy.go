package shim

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/procs"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// What is here serves shims of protocol version 1, which an agent of an earlier version started: tasks go on while
// the agent is upgraded. Such a shim remembers no end, so that a repeated request about what is gone is answered with
// an error.

// legacy reports that the shim speaks only the first version.
func (c *conn) legacy() bool { return c.hello.Version < 2 }

// endEarlier ends earlier attempts of a task that is to be launched; later shims do that themselves.
func (l *Launcher) endEarlier(ctx context.Context, spec *driver.LaunchSpec) error {
	var held shimproto.List
	if err := ask(ctx, l.socket(spec.AllocID), shimproto.TypeList, nil, &held); err != nil {
		return err
	}
	for _, e := range held.Entries {
		if e.Task != spec.Task {
			continue
		}
		l.cfg.Log.Warn("ending an earlier attempt of a task that nobody knew of",
			logkey.Alloc, spec.AllocID, logkey.Task, spec.Task, "process", e.Name)
		if err := l.killHeld(ctx, spec.AllocID, e.Named); err != nil {
			return err
		}
	}
	return nil
}

// legacyWait bounds the question how a process ended that an old shim refuses to kill: the answer is there or never
// comes.
const legacyWait = 2 * time.Second

// legacyEnd judges the error of an old shim that was asked to kill a process: when no process is left in its cgroup,
// it has ended. It is false when the error stands.
func (l *Launcher) legacyEnd(ctx context.Context, alloc string, n shimproto.Named, failed error) (
	*shimproto.Exit, bool) {
	if ctx.Err() != nil || errors.Is(failed, errGone) || fault.Has(failed, fault.NotFound) {
		return nil, false
	}
	if empty, err := l.tree.Group(l.cfg.Slice, alloc, n.Name).Empty(); err != nil || !empty {
		return nil, false
	}
	limited, cancel := context.WithTimeout(ctx, legacyWait)
	defer cancel()
	exit := &shimproto.Exit{}
	if err := ask(limited, l.socket(alloc), shimproto.TypeWait, &n, exit); err != nil {
		exit = &shimproto.Exit{Unknown: true, Ended: time.Now().UnixNano(), Err: "its shim does not say how it ended"}
	}
	return exit, true
}

// killLegacy ends an old shim with all it holds. It may hold for ever what it refused to kill, so that it is not asked.
func (l *Launcher) killLegacy(ctx context.Context, alloc string, c *conn) error {
	fd, err := unix.PidfdOpen(c.hello.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return l.sweep(ctx, alloc)
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "end", "the shim of alloc "+ids.Short(alloc))
	}
	defer unix.Close(fd)
	start, err := procs.StartTime(c.hello.PID)
	if err == nil && start == c.hello.Start { // the descriptor is of the process that has just answered
		err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) && !fault.Has(err, fault.NotFound) {
		return fault.Wrap(err, fault.Internal, "end", "the shim of alloc "+ids.Short(alloc))
	}
	if err := waitDead(ctx, c.hello.PID, c.hello.Start); err != nil {
		return err
	}
	return l.sweep(ctx, alloc)
}
