package taskrunner

import (
	"context"
	"fmt"
	"io"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/model/alloc"
	"berth/internal/port/driver"
)

// Open says that the task's place in the lifecycle has come.
func (r *Runner) Open() { r.order(func(o *orders) { o.due = true }) }

// AllocReady says that the hooks of the alloc are done.
func (r *Runner) AllocReady() { r.order(func(o *orders) { o.ready = true }) }

// Hold says whether the alloc is an orphan: a task that runs is kept, one that does not is never started.
func (r *Runner) Hold(held bool) { r.order(func(o *orders) { o.held = held }) }

// Suspend says why nothing may be begun with a volume of the alloc: a task that runs is kept, and one that does not
// waits for its start. Empty: it may.
func (r *Runner) Suspend(why string) {
	r.mu.Lock()
	same := r.orders.suspended == why
	r.mu.Unlock()
	if same {
		return
	}
	if why == "" {
		r.sayReady()
	}
	r.order(func(o *orders) { o.suspended = why })
}

// Kill orders the task's end. The first order counts.
func (r *Runner) Kill(k KillOrder) {
	r.order(func(o *orders) {
		if o.kill == nil {
			o.kill = &k
		}
	})
}

// order changes the orders and lets the present step hear of it.
func (r *Runner) order(fn func(*orders)) {
	r.mu.Lock()
	fn(&r.orders)
	if r.interrupt != nil && r.orders.urgent(r.live) {
		r.interrupt()
	}
	r.mu.Unlock()
	r.wake.Notify()
}

// Restart asks for a restart that does not count. A task that waits for its restart starts at once; one that is dead
// can't be restarted. With noDelay the shutdown_delay is left out.
func (r *Runner) Restart(reason string, noDelay bool) error { return r.restart(reason, noDelay, false) }

// RestartUnhealthy ends a task that runs, as if it had failed by itself: its restart policy says what follows.
func (r *Runner) RestartUnhealthy(reason string) error {
	if _, err := r.Live(); err != nil {
		return err
	}
	return r.restart(reason, false, true)
}

func (r *Runner) restart(reason string, noDelay, failed bool) error {
	was, running, err := r.restartable()
	if err != nil {
		return err
	}
	waits := ""
	if why := r.suspended(); running && why != "" {
		waits = "The restart waits, and the task runs on: " + why
	}
	// It is said before it is done, or the end that it brings would be told first.
	err = r.update(func(rec *localstate.Task) {
		rec.NotBefore = time.Time{}
		r.addEvent(rec, &alloc.TaskEvent{Type: alloc.EventRestartSignal, DisplayMessage: reason, Message: reason})
		if waits != "" {
			r.addEvent(rec, &alloc.TaskEvent{Type: alloc.EventStorageWaiting, DisplayMessage: waits, Message: waits})
		}
	})
	if running {
		r.order(func(o *orders) {
			if !r.dead && o.kill == nil && (was == nil || r.live == was) { // else it has ended meanwhile
				o.restart, o.noDelay = reason, noDelay
				o.failed = failed
			}
		})
	}
	return err
}

// restartable returns the process that a restart would end, as far as it is known already, and whether there is one.
func (r *Runner) restartable() (live driver.Task, running bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead || r.orders.kill != nil || r.rec.Over {
		return nil, false, fault.New(fault.Conflict, "restart", r.subject(), "it has ended")
	}
	return r.live, r.live != nil || r.rec.Handle != nil, nil
}

// suspended is why the task is not restarted now; empty: it is.
func (r *Runner) suspended() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orders.suspended
}

// Renew has the task run anew with all others of its alloc: what runs of it is ended by EndRound, and it starts when
// its turn comes again. Revived reports one that was dead, which is to be run again. What comes to its end stays out.
func (r *Runner) Renew(reason string, noDelay bool) (revived bool, err error) {
	r.mu.Lock()
	revived = r.dead
	if r.orders.kill != nil && !revived || r.rec.Over && !revived {
		r.mu.Unlock()
		return false, nil
	}
	r.orders.due, r.orders.noDelay = false, noDelay
	if revived {
		r.dead, r.prepared = false, false
		r.orders.kill = nil
	}
	r.mu.Unlock()
	return revived, r.update(func(rec *localstate.Task) {
		rec.Again = true
		rec.NotBefore = time.Time{}
		if revived {
			rec.Over = false
			rec.State.State = alloc.TaskPending
			rec.State.Failed = false
			rec.State.FinishedAt = time.Time{}
		}
		r.addEvent(rec, &alloc.TaskEvent{Type: alloc.EventRestartSignal, DisplayMessage: reason, Message: reason})
	})
}

// EndRound ends what runs of a task that is to run anew.
func (r *Runner) EndRound() {
	r.order(func(o *orders) {
		if !r.dead && o.kill == nil && r.rec.Again && (r.live != nil || r.rec.Handle != nil) {
			o.restart, o.failed = "all tasks run anew", false
		}
	})
}

// Signal sends a signal to the running process.
func (r *Runner) Signal(ctx context.Context, signal, reason string) error {
	live, err := r.Live()
	if err != nil {
		return err
	}
	if err := live.Signal(ctx, signal); err != nil {
		return err
	}
	text := "Task was sent " + signal
	if reason != "" {
		text += ": " + reason
	}
	r.emit(&alloc.TaskEvent{
		Type:           alloc.EventSignaling,
		DisplayMessage: text,
		Message:        reason,
		Details:        map[string]string{"signal": signal},
	})
	return nil
}

// Live returns the running process.
func (r *Runner) Live() (driver.Task, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live == nil || r.exit != nil {
		return nil, fault.New(fault.Conflict, "reach", r.subject(), "it does not run")
	}
	return r.live, nil
}

// RunCommand runs a command in the process that runs now, with ${…} filled in as at its start, and returns its exit
// code. What it prints, on either stream, goes to out. One whose ctx ends is killed.
func (r *Runner) RunCommand(ctx context.Context, command []string, out io.Writer) (int, error) {
	t, err := r.hookTask()
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	t.Out = r.out
	r.mu.Unlock()
	words := make([]string, 0, len(command))
	for _, w := range command {
		text, err := t.Interpolate(w)
		if err != nil {
			return 0, fault.Note(err, "run a command in", r.subject())
		}
		words = append(words, text)
	}
	return r.run(ctx, words, out)
}

// run runs a command whose texts are put together.
func (r *Runner) run(ctx context.Context, command []string, out io.Writer) (int, error) {
	live, err := r.Live()
	if err != nil {
		return 0, err
	}
	res, err := live.Exec(ctx, driver.ExecRequest{Command: command, Stdout: out, Stderr: out})
	if err != nil {
		return 0, err
	}
	return res.Told().ExitCode, nil
}

// Update takes over the alloc as the servers changed it in place.
func (r *Runner) Update(ctx context.Context, b alloc.Bundle) {
	r.mu.Lock()
	r.bundle = b
	running := r.live != nil && r.exit == nil
	out := r.out
	r.mu.Unlock()
	if !running {
		return
	}
	t, err := r.hookTask()
	if err != nil {
		r.hookFailed("update", err)
		return
	}
	t.Out = out
	for _, h := range r.cfg.Hooks {
		if u, ok := h.(hook.Updater); ok {
			if err := u.Updated(ctx, t); err != nil {
				r.hookFailed(h.Name(), err)
			}
		}
	}
}

func (r *Runner) hookFailed(name string, err error) {
	text := name + ": " + err.Error()
	r.emit(&alloc.TaskEvent{Type: alloc.EventHookFailed, DisplayMessage: text, Message: text})
}

func (r *Runner) subject() string { return fmt.Sprintf("task %q", r.cfg.Task) }

// control lets hooks and keepers act on the task.
type control struct{ r *Runner }

func (c control) Signal(ctx context.Context, signal, reason string) error {
	return c.r.Signal(ctx, signal, reason)
}

func (c control) Restart(_ context.Context, reason string) error { return c.r.Restart(reason, false) }

func (c control) Kill(_ context.Context, reason string) error {
	c.r.Kill(KillOrder{Why: alloc.EventKilling, Message: reason, Fail: true})
	return nil
}

func (c control) Run(ctx context.Context, command []string) (int, error) {
	return c.r.run(ctx, command, io.Discard)
}
