package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
)

// stateVersion is the version of TaskHandle.State that this code writes.
const stateVersion = 1

// state is what finds a task again.
type state struct {
	Container string // its id
	Image     string // its id
	TTY       bool
	Output    driver.ProcessHandle
	Logs      driver.LogConfig
}

// task is a started container.
type task struct {
	d      *Driver
	handle driver.TaskHandle
	st     state

	changed lifecycle.Signal // something happened to the container

	mu     sync.Mutex
	output driver.Process // reads what the container writes; nil: it has ended
	end    *driver.ExitResult
	killed bool   // one of its processes was, for the memory limit
	asked  bool   // it is to end: what was killed in it before is not its end
	forced bool   // it is stopped by a signal that it cannot refuse
	oom    string // the file that counts kills for the memory limit; empty: it is not known
}

var _ driver.Task = (*task)(nil)

// containerName names the container of a task. There is one at a time, which the daemon sees to.
func containerName(id ids.Alloc, name string) string { return name + "-" + string(id) }

func subject(name string) string { return "task " + strconv.Quote(name) }

// Handle implements driver.Task.
func (t *task) Handle() driver.TaskHandle { return t.handle }

// encode writes down what finds the task again.
func (t *task) encode() (err error) {
	t.handle.State, err = json.Marshal(t.st)
	return fault.Wrap(err, fault.Internal, "record", subject(t.handle.Task))
}

// Recover implements driver.Driver.
func (d *Driver) Recover(ctx context.Context, h driver.TaskHandle) (driver.Task, error) {
	fail := func(err error) (driver.Task, error) { return nil, fault.Note(err, "recover", subject(h.Task)) }
	if h.Driver != Name || h.Version != stateVersion {
		return fail(fault.New(fault.Invalid, "", "", fmt.Sprintf("its handle is of driver %q, version %d; this is %q, "+
			"version %d", h.Driver, h.Version, Name, stateVersion)))
	}
	t := &task{d: d, handle: h}
	if err := json.Unmarshal(h.State, &t.st); err != nil {
		return fail(fault.Wrap(err, fault.Invalid, "", ""))
	}
	asked := t.st.Container
	if asked == "" { // its record was lost, and only what reads its output was found
		asked = containerName(h.Alloc, h.Task)
		if err := json.Unmarshal(h.State, &t.st.Output); err != nil {
			return fail(fault.Wrap(err, fault.Invalid, "", ""))
		}
	}
	if err := d.there(ctx, recoverPatience); err != nil {
		return fail(err)
	}
	c, err := d.api.Inspect(ctx, asked)
	if err == nil && c.State.Status == "created" {
		err = fault.New(fault.NotFound, "", "", "its container was never started")
	}
	if fault.Has(err, fault.NotFound) {
		if lives := t.endForgotten(ctx); lives != nil {
			return fail(lives)
		}
		return fail(errors.Join(fault.Wrap(err, fault.NotFound, "", ""), t.forgetOutput(ctx)))
	}
	if err != nil {
		return fail(err)
	}
	if err := d.endUnheld(ctx, c); err != nil {
		return fail(err)
	}
	t.st.Container, t.st.Image = c.ID, c.Image
	t.st.TTY = c.Config.Tty
	d.images.Use(c.Image, c.ID)
	if err := t.readOutput(ctx, t.lastWritten()); err != nil {
		return fail(err)
	}
	if err := t.encode(); err != nil {
		return fail(err)
	}
	d.hold(t)
	return t, nil
}

// recoverPatience is how long a task that is looked for waits for a daemon that is about to be found.
const recoverPatience = 10 * time.Second

// Wait implements driver.Task. A daemon that goes away meanwhile is waited for.
func (t *task) Wait(ctx context.Context) (driver.ExitResult, error) {
	for {
		changed := t.changed.C()
		if end := t.ended(); end != nil {
			return *end, nil
		}
		c, err := t.d.api.Inspect(ctx, t.st.Container)
		switch {
		case ctx.Err() != nil:
			return driver.ExitResult{}, ctx.Err()
		case fault.Has(err, fault.NotFound):
			return t.removed(ctx)
		case err == nil && c.State.Ended():
			t.drain(ctx)
			return t.note(t.judge(ctx, c.State)), nil
		}
		late := time.NewTimer(waitAgain(err))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-late.C:
		}
		late.Stop()
	}
}

// removed notes the end of a container that is not there any more.
func (t *task) removed(ctx context.Context) (driver.ExitResult, error) {
	if err := t.endForgotten(ctx); err != nil {
		return driver.ExitResult{}, err
	}
	return t.note(driver.ExitResult{Unknown: true, Err: "its container was removed", Ended: time.Now()}), nil
}

// waitAgain is how long nothing may be heard of a container before it is looked at: a daemon that is heard tells at
// once.
func waitAgain(err error) time.Duration {
	if err != nil {
		return time.Second
	}
	return time.Minute
}

// judge is how the container ended. A daemon may hear of a kill for the memory limit only after the end that it led to.
func (t *task) judge(ctx context.Context, s dockerapi.State) driver.ExitResult {
	t.mu.Lock()
	forced := t.forced && s.ExitCode == driver.SignalBase+int(unix.SIGKILL)
	if forced { // what was killed in it before it was stopped is not its end
		s.OOMKilled = false
	} else if t.asked {
		s.OOMKilled = t.killed // the daemon's word is of all its time
	}
	t.mu.Unlock()
	if forced || s.ExitCode == 0 || s.OOMKilled {
		return exit(s)
	}
	late := time.NewTimer(oomLate)
	defer late.Stop()
	for {
		changed := t.changed.C()
		t.mu.Lock()
		s.OOMKilled = t.killed
		t.mu.Unlock()
		if s.OOMKilled {
			return exit(s)
		}
		select {
		case <-ctx.Done():
			return exit(s)
		case <-late.C:
			return exit(s)
		case <-changed:
		}
	}
}

// oomLate is how much later than the end of a container a daemon may hear why.
const oomLate = 250 * time.Millisecond

func (t *task) killedForMemory() {
	t.mu.Lock()
	t.killed = true
	t.mu.Unlock()
	t.changed.Notify()
}

func exit(s dockerapi.State) driver.ExitResult {
	r := driver.ExitResult{ExitCode: s.ExitCode, Ended: s.FinishedAt}
	// What goes on after one of its processes was killed was not ended by that.
	r.OOMKilled = s.OOMKilled && s.ExitCode != 0
	if s.ExitCode > driver.SignalBase && s.ExitCode <= driver.SignalBase+lastSignal {
		r.Signal = s.ExitCode - driver.SignalBase
	}
	return r
}

// A process that a signal ended is shown by the daemon as a shell shows it.
const lastSignal = 64

// ended is how the task ended, if that is known.
func (t *task) ended() *driver.ExitResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}

// note notes how the task ended, unless that was known before.
func (t *task) note(r driver.ExitResult) driver.ExitResult {
	t.mu.Lock()
	if t.end == nil {
		t.end = &r
	}
	end := *t.end
	t.mu.Unlock()
	t.changed.Notify()
	return end
}

// Stop implements driver.Task. What it has begun goes on when ctx ends.
func (t *task) Stop(ctx context.Context, signal string, grace time.Duration) error {
	return fault.Note(t.d.beside(ctx, "stop", func(ctx context.Context) error {
		if err := t.stop(ctx, signal, grace); err != nil {
			return err
		}
		if err := t.remove(ctx); err != nil {
			return err
		}
		if err := t.forgetOutput(ctx); err != nil {
			return err
		}
		t.d.release(t)
		t.d.images.Free(t.st.Image, t.st.Container)
		return nil
	}), "stop", subject(t.handle.Task))
}

// stop ends the container, and notes how it ended.
func (t *task) stop(ctx context.Context, signal string, grace time.Duration) error {
	c, err := t.d.api.Inspect(ctx, t.st.Container)
	if fault.Has(err, fault.NotFound) {
		_, err := t.removed(ctx)
		return err
	}
	if err != nil {
		return err
	}
	if c.State.Running && grace > 0 {
		if signal == "" {
			signal = c.Config.StopSignal
		}
		if signal == "" {
			signal = defaultSignal
		}
		t.mu.Lock()
		if !t.asked {
			t.asked, t.killed = true, false
		}
		t.mu.Unlock()
		if err := t.kill(ctx, signal); err != nil {
			return err
		}
		patient, cancel := context.WithTimeout(ctx, grace)
		_, err := t.Wait(patient)
		cancel()
		if err == nil {
			return nil
		}
	}
	t.mu.Lock()
	t.forced = true
	t.mu.Unlock()
	for failures := 1; ; failures++ {
		err := t.kill(ctx, "SIGKILL")
		limited, cancel := context.WithTimeout(ctx, callLimit)
		_, waited := t.Wait(limited)
		cancel()
		switch {
		case waited == nil:
			return nil
		case failures == killTries:
			return errors.Join(err, fault.Wrap(waited, fault.Timeout, "wait for the end of", "its container"))
		}
		retry.Sleep(ctx, time.Second)
	}
}

const killTries = 3

// kill sends a signal. A container that has ended is not signalled.
func (t *task) kill(ctx context.Context, signal string) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := t.d.api.Kill(limited, t.st.Container, signal)
	if fault.Has(err, fault.NotFound) || fault.Has(err, fault.Conflict) {
		return nil // the daemon's answer for one that does not run
	}
	return err
}

// remove removes the container, unless those that ended are kept.
func (t *task) remove(ctx context.Context) error {
	if t.d.cfg.KeepContainers {
		return nil
	}
	return t.d.removeContainer(ctx, t.st.Container)
}

func (d *Driver) removeContainer(ctx context.Context, id string) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := d.api.Remove(limited, id)
	switch {
	case fault.Has(err, fault.NotFound):
		return nil
	case fault.Has(err, fault.Conflict):
		for limited.Err() == nil { // somebody else removes it: it is gone when it cannot be found
			if _, err := d.api.Inspect(limited, id); fault.Has(err, fault.NotFound) {
				return nil
			}
			retry.Sleep(limited, 100*time.Millisecond)
		}
	}
	return err
}

// Signal implements driver.Task.
func (t *task) Signal(ctx context.Context, signal string) error {
	if unix.SignalNum(signal) == 0 {
		return fault.WithHint(fault.New(fault.Invalid, "signal", subject(t.handle.Task),
			"there is no signal "+strconv.Quote(signal)), "write it as in SIGHUP")
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := t.d.api.Kill(limited, t.st.Container, signal)
	switch {
	case fault.Has(err, fault.Conflict):
		c, other := t.d.api.Inspect(limited, t.st.Container)
		if other == nil && c.State.Running {
			break // Docker says why
		}
		return fault.New(fault.NotFound, "signal", subject(t.handle.Task), "it has ended")
	}
	return fault.Note(err, "signal", subject(t.handle.Task))
}
