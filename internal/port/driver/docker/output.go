package docker

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
)

// drainLimit is how long what a container wrote may take to come, once it has ended.
const drainLimit = 5 * time.Second

// collector is what reads a container's output, for as long as the alloc's shim lives. Its program is the shim's own.
func (t *task) collector(since string) *driver.LaunchSpec {
	streams := "streams"
	if t.st.TTY {
		streams = "tty"
	}
	return &driver.LaunchSpec{
		AllocID: string(t.handle.Alloc),
		Task:    t.handle.Task,
		Attempt: t.handle.Attempt,
		Argv: []string{"/proc/self/exe", "containerlog", t.d.cfg.Socket, t.d.api.Spoken(), t.st.Container, streams,
			since},
		Dir:  "/",
		Logs: t.st.Logs,
		Resources: driver.Resources{
			CPUShares: 10,
			MemoryMB:  64,
			PIDs:      32,
		},
	}
}

// readOutput has the container's output read, if nobody does. That is done also where nothing is kept of it: the shim
// of an alloc is what its containers are found by when the node has lost its records.
func (t *task) readOutput(ctx context.Context, since string) error {
	if t.st.Output.Name != "" {
		p, err := t.d.cfg.Launcher.Attach(ctx, t.st.Output)
		if err == nil {
			t.setOutput(p)
			return nil
		}
		if !fault.Has(err, fault.NotFound) {
			return err
		}
		if t.st.Logs.Dir == "" {
			return nil // where to is not known
		}
	}
	p, err := t.d.cfg.Launcher.Launch(ctx, t.collector(since))
	if err != nil {
		return fault.Note(err, "have somebody read the output of", subject(t.handle.Task))
	}
	t.st.Output = p.Handle()
	t.setOutput(p)
	return nil
}

func (t *task) setOutput(p driver.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.output = p
}

func (t *task) reader() driver.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.output
}

// lastWritten is when something was written last into the files of the task's output, in the daemon's form; empty:
// nothing was. Who reads from then on reads little twice.
func (t *task) lastWritten() string {
	var last time.Time
	for _, stream := range []string{"stdout", "stderr"} {
		files, err := filepath.Glob(filepath.Join(t.st.Logs.Dir, t.handle.Task+"."+stream+".*"))
		if err != nil {
			return "" // the pattern is of the task's making
		}
		for _, f := range files {
			if st, err := os.Stat(f); err == nil && st.ModTime().After(last) {
				last = st.ModTime()
			}
		}
	}
	if last.IsZero() || last.Before(t.handle.Started) {
		return ""
	}
	return last.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// drain waits until the output of a container that has ended was read.
func (t *task) drain(ctx context.Context) {
	p := t.reader()
	if p == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if _, err := p.Wait(limited); err != nil && ctx.Err() == nil {
		t.d.warn("the last output of a container may be missing", t.handle.Alloc, err)
	}
}

// forgetOutput ends what reads the output of a container that is gone.
func (t *task) forgetOutput(ctx context.Context) error {
	p := t.reader()
	if p == nil && t.st.Output.Name != "" {
		var err error
		if p, err = t.d.cfg.Launcher.Attach(ctx, t.st.Output); fault.Has(err, fault.NotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if p == nil {
		return nil
	}
	err := p.Kill(ctx, "SIGTERM", 0)
	if err != nil && !fault.Has(err, fault.NotFound) {
		return fault.Note(err, "end what reads the output of", subject(t.handle.Task))
	}
	t.setOutput(nil)
	return nil
}
