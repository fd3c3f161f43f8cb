package allocrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/localstate"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Update begins to take over the alloc as the servers have it now. The caller writes the record, then calls done with
// whether that succeeded; only then the runner acts on it. Meanwhile the runner writes nothing.
func (r *Runner) Update(b alloc.Bundle) (rec *localstate.Alloc, done func(written bool)) {
	r.saving.Lock()
	r.mu.Lock()
	c := r.rec
	r.mu.Unlock()
	if missing := r.missingTask(b); missing != "" {
		r.cfg.Log.Error("the servers changed a running allocation's job so that a task of it is gone; the job stays as it was", logkey.Task, missing)
		b.Job = c.Bundle.Job
	}
	c.Bundle = b
	return &c, func(written bool) {
		if written {
			r.mu.Lock()
			r.rec.Bundle = b
			r.mu.Unlock()
		}
		r.saving.Unlock()
		if !written {
			return
		}
		select {
		case r.updated <- struct{}{}:
		default: // the tasks have not heard of the last one; they will hear of this one
		}
		r.changed()
	}
}

// missingTask names a task that runs here and that a newer job no longer describes.
func (r *Runner) missingTask(b alloc.Bundle) string {
	group := b.Job.Group(b.Alloc.TaskGroup)
	for _, n := range r.order {
		if group == nil || group.Task(n) == nil {
			return n
		}
	}
	return ""
}

// Stop ends the alloc because the agent decided so; the reason is for people. With force poststop tasks are ended too.
func (r *Runner) Stop(reason string, force bool) error {
	r.mu.Lock()
	r.force = r.force || force
	r.mu.Unlock()
	return r.update(func(rec *localstate.Alloc) {
		if rec.Stopped == "" {
			rec.Stopped = reason
		}
	})
}

// Restart restarts one task, or with an empty name every task that runs; all includes those that have ended.
func (r *Runner) Restart(task string, all, noDelay bool) error {
	if r.over() {
		return fault.New(fault.Conflict, "restart", fmt.Sprintf("allocation %q", r.ID()), "it is stopped or stopping")
	}
	if task != "" {
		t, err := r.Task(task)
		if err != nil {
			return err
		}
		return t.Restart("User requested restart", noDelay)
	}
	for _, n := range r.order {
		t := r.tasks[n]
		state := t.View().State
		switch {
		case state == alloc.TaskRunning:
			if err := t.Restart("User requested restart", noDelay); err != nil && !fault.Has(err, fault.Conflict) {
				return err // a task that ended meanwhile has nothing to restart
			}
		case state == alloc.TaskDead && all:
			if err := t.Revive("User requested all tasks to restart"); err != nil {
				return err
			}
			r.revived <- n
		}
	}
	return nil
}

func (r *Runner) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping() || r.rec.Released || r.rec.Refused != ""
}

// Signal sends a signal to one task, or with an empty name to every task that runs.
func (r *Runner) Signal(ctx context.Context, task, signal string) error {
	if task != "" {
		t, err := r.Task(task)
		if err != nil {
			return err
		}
		return t.Signal(ctx, signal, "User requested")
	}
	sent := 0
	for _, n := range r.order {
		if _, err := r.tasks[n].Live(); err != nil {
			continue // a task that does not run has nobody to signal; when none runs, that is said below
		}
		if err := r.tasks[n].Signal(ctx, signal, "User requested"); err != nil {
			return err
		}
		sent++
	}
	if sent == 0 {
		return fault.New(fault.Conflict, "signal", fmt.Sprintf("allocation %q", r.ID()), "none of its tasks runs")
	}
	return nil
}

// RestartUsers restarts exactly the tasks that mount the group's volume of this alias and live: what was mounted there is
// dead, and they must see what takes its place.
func (r *Runner) RestartUsers(alias, reason string) error {
	var errs []error
	for _, t := range r.Bundle().Job.Group(r.Bundle().Alloc.TaskGroup).Tasks {
		uses := slices.ContainsFunc(t.VolumeMounts, func(m *job.VolumeMount) bool { return m.Volume == alias })
		if runner := r.tasks[t.Name]; uses && runner != nil {
			if gone, _ := runner.ProcessGone(); !gone {
				errs = append(errs, runner.Restart(reason, true))
			}
		}
	}
	return errors.Join(errs...)
}
