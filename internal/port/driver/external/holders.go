package external

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/procs"
	"berth/internal/port/pluginhost"
)

// askedEnd ends the name of a file that says which process of the plugin was asked to start an attempt. It is there
// until that process has answered: a plugin goes on with a start for an agent that has died, and knows the task only
// when it has begun.
const askedEnd = ".asked"

func (c Config) asked(id ids.Alloc, name string, attempt int) string {
	stdout, _ := c.fifos(id, name, attempt)
	return strings.TrimSuffix(stdout, stdoutEnd) + askedEnd
}

// outputs reports whether of any task something may live.
func (c Config) outputs() bool {
	entries, err := os.ReadDir(c.outputsDir())
	return len(entries) > 0 || err != nil && !errors.Is(err, os.ErrNotExist)
}

// beginsLimit is how long a start for an agent that has died may go on, before its plugin, which holds other tasks,
// too, is ended to be sure that it does not.
const beginsLimit = 2 * time.Minute

// neverBegins returns nil when an attempt that the plugin does not know cannot begin any more, and nothing of it lives.
func (s *connection) neverBegins(ctx context.Context, id ids.Alloc, name string, attempt int) error {
	path := s.d.cfg.asked(id, name, attempt)
	process, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was never asked for, or the plugin has answered
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", path)
	}
	if string(process) == s.process.ID() {
		return s.endStarting(taskID(id, name, attempt))
	}
	if err := pluginhost.EndProcess(string(process)); err != nil {
		return err
	}
	// What it has begun without having said so writes to the attempt's pipes.
	if err := s.d.cfg.Launcher.Abort(ctx, id, name, attempt); err != nil {
		return err
	}
	return s.endWriters(id, name, attempt)
}

// endStarting has a plugin that may be starting a task for an agent that has died end: nothing else tells that it will
// not. Other tasks of it are taken up by the process that is started next, but it is given time to answer before.
func (s *connection) endStarting(id string) error {
	wait := func(text string) error {
		return fault.New(fault.NotReady, "end", subject(id), text)
	}
	others, err := s.d.cfg.others()
	if err != nil {
		return err
	}
	if others && time.Since(s.since) < beginsLimit {
		return wait("its plugin may still be starting it for an agent that has ended; it is given " +
			beginsLimit.String() + ", for it holds other tasks, and is then started again")
	}
	if err := s.process.Kill(); err != nil {
		return err
	}
	return wait("its plugin was starting it for an agent that has ended, and is started again, for nothing else " +
		"would keep the task from beginning later")
}

// others reports whether the plugin may hold other tasks than those that it may be starting.
func (c Config) others() (bool, error) {
	found, err := filepath.Glob(filepath.Join(c.outputsDir(), "*"+stdoutEnd))
	for _, stdout := range found {
		if _, err := os.Stat(strings.TrimSuffix(stdout, stdoutEnd) + askedEnd); errors.Is(err, os.ErrNotExist) {
			return true, nil
		}
	}
	return false, fault.Wrap(err, fault.Internal, "look for", "other tasks of the plugin")
}

// endWriters ends the processes that have the pipes of an attempt open, but for the plugin's own.
func (s *connection) endWriters(id ids.Alloc, name string, attempt int) error {
	stdout, stderr := s.d.cfg.fifos(id, name, attempt)
	writers := func() (pids []int, err error) {
		all, err := procs.Opened(-1, procs.Real(stdout), procs.Real(stderr))
		for _, pid := range all {
			if !s.process.Is(pid) && pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
		return pids, err
	}
	pids, err := writers()
	for _, pid := range pids {
		err = errors.Join(err, procs.Kill(pid, func() bool {
			now, err := writers()
			return err == nil && slices.Contains(now, pid)
		}, pluginhost.CallLimit))
	}
	return fault.Note(err, "end what was begun of", subject(taskID(id, name, attempt)))
}
