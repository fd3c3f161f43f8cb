package allocrunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/localstate"
	"berth/internal/client/taskrunner"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
)

// Change is what a state of the servers says anew of an alloc. Commit brings it into force.
type Change struct {
	runner *Runner
	edit   func(*localstate.Alloc)
	news   bool // the tasks have to hear of it
}

// Commit has the records of all changes written together, with whatever else write writes, and brings the changes into
// force once that succeeded. Meanwhile their runners write nothing. An alloc is changed once.
func Commit(changes []Change, write func([]*localstate.Alloc) error) error {
	inOrder := slices.SortedFunc(slices.Values(changes), func(x, y Change) int {
		return cmp.Compare(x.runner.ID(), y.runner.ID())
	})
	err := commit(inOrder, write)
	for _, c := range changes {
		if c.news || err == nil {
			c.runner.hinder(err)
		}
	}
	if err != nil {
		return err
	}
	for _, c := range changes {
		c.runner.hold()
		if c.news {
			c.runner.hasNews()
		}
		c.runner.TaskChanged()
	}
	return nil
}

func commit(changes []Change, write func([]*localstate.Alloc) error) error {
	var records []*localstate.Alloc
	for _, c := range changes {
		c.runner.saving.Lock()
		defer c.runner.saving.Unlock()
		rec := c.runner.record()
		c.edit(&rec)
		records = append(records, &rec)
	}
	if err := write(records); err != nil {
		return err
	}
	for _, c := range changes {
		c.runner.mu.Lock()
		c.edit(&c.runner.rec)
		c.runner.mu.Unlock()
	}
	return nil
}

func (r *Runner) record() localstate.Alloc {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec
}

// hasNews lets the tasks hear of the newest bundle.
func (r *Runner) hasNews() {
	select {
	case r.updated <- struct{}{}:
	default: // they have not heard of the last one; they will hear of this one
	}
}

// Update is the alloc as the servers have it now, at a point of their state.
func (r *Runner) Update(b alloc.Bundle, at lineage.Point) Change {
	if missing := r.missingTask(b); missing != "" {
		r.cfg.Log.Error(
			"the servers changed a running allocation's job so that a task of it is gone; the job stays as it was",
			logkey.Task, missing)
		b.Job = r.Bundle().Job
	}
	return Change{
		runner: r,
		edit: func(rec *localstate.Alloc) {
			rec.Bundle = b
			rec.Received = at
			rec.Orphan = nil
		},
		news: true,
	}
}

// Stamp is that the servers' state at a point knows the alloc: it is no orphan, or no longer.
func (r *Runner) Stamp(at lineage.Point) Change {
	return Change{runner: r, edit: func(rec *localstate.Alloc) { rec.Received, rec.Orphan = at, nil }}
}

// Received is the last state of the servers that knew the alloc.
func (r *Runner) Received() lineage.Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Received
}

// Orphan says why nobody decides about the alloc; nil: the servers do.
func (r *Runner) Orphan() *localstate.Orphan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Orphan
}

// Stopped reports whether the agent itself decided that the alloc ends, because a person said so or the agent stops.
func (r *Runner) Stopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Stopped != ""
}

// Keep makes the alloc an orphan: what runs of it runs on, and nothing of it is started or ended but by a person.
func (r *Runner) Keep(reason string, now time.Time) error {
	if o := r.Orphan(); o != nil && o.Reason == reason {
		return nil
	}
	err := r.update(func(rec *localstate.Alloc) {
		since := now
		if rec.Orphan != nil {
			since = rec.Orphan.Since
		}
		rec.Orphan = &localstate.Orphan{Reason: reason, Since: since}
	})
	r.hold()
	return err
}

// Suspend says why the servers let nothing be begun with a volume of the alloc; empty: they do. It outlives the agent:
// its next run must not restart what ended meanwhile before it has heard the servers.
func (r *Runner) Suspend(why string) error {
	if r.record().Suspended == why {
		return nil
	}
	err := r.update(func(rec *localstate.Alloc) { rec.Suspended = why })
	r.hold()
	return err
}

// hold tells the tasks whether they are an orphan's, and whether a volume of theirs is suspended.
func (r *Runner) hold() {
	rec := r.record()
	for _, n := range r.order {
		r.tasks[n].Hold(rec.Orphan != nil)
		r.tasks[n].Suspend(rec.Suspended)
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
	r.stop.force = r.stop.force || force
	r.mu.Unlock()
	return r.update(func(rec *localstate.Alloc) {
		if rec.Stopped == "" {
			rec.Stopped = reason
		}
	})
}

// Restart restarts one task, or with an empty name every task that runs. With all, those that have ended run again too:
// everything ends and begins anew, in the order of the lifecycle.
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
	if all {
		return r.renew(noDelay)
	}
	for _, n := range r.order {
		t := r.tasks[n]
		if t.View().State != alloc.TaskRunning {
			continue
		}
		if err := t.Restart("User requested restart", noDelay); err != nil && !fault.Has(err, fault.Conflict) {
			return err // a task that ended meanwhile has nothing to restart
		}
	}
	return nil
}

// renew has all tasks run anew. Those that run come first: if the agent dies in between, what was to come before
// them is left out, and nothing of it runs beside them.
func (r *Runner) renew(noDelay bool) error {
	r.turns.Lock()
	defer r.turns.Unlock()
	if f, _ := r.facts(time.Now()); !f.Renewable() {
		return fault.WithHint(fault.New(fault.Conflict, "restart", fmt.Sprintf("allocation %q", r.ID()),
			"its tasks come to their end"), "the servers place another one where the job wants it")
	}
	for _, dead := range []bool{false, true} {
		for _, n := range r.order {
			t := r.tasks[n]
			if (t.View().State == alloc.TaskDead) != dead {
				continue
			}
			revived, err := t.Renew("User requested all tasks to restart", noDelay)
			if err != nil {
				return err
			}
			if revived {
				r.turns.revived <- n
			}
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

// RestartUsers restarts exactly the tasks that mount the group's volume of this alias and live: what was mounted there
// is dead, and they must see what takes its place.
func (r *Runner) RestartUsers(alias, reason string) error {
	var errs []error
	for _, t := range r.users(alias) {
		if r.Orphan() != nil || r.Barred() != "" {
			break // nothing of an orphan is started again
		}
		if gone, _ := t.ProcessGone(); !gone {
			errs = append(errs, t.Restart(reason, true))
		}
	}
	return errors.Join(errs...)
}

// RestartUnhealthy restarts a task, or with an empty name all that run, as ones that failed: a check of theirs did.
func (r *Runner) RestartUnhealthy(task, reason string) error {
	if r.Orphan() != nil || r.Barred() != "" || r.over() {
		return nil // nothing of an orphan is started again
	}
	var errs []error
	for _, n := range r.order {
		if t := r.tasks[n]; (task == "" || n == task) && t.View().State == alloc.TaskRunning {
			if err := t.RestartUnhealthy(reason); err != nil && !fault.Has(err, fault.Conflict) {
				errs = append(errs, err) // one that ended meanwhile has nothing to restart
			}
		}
	}
	return errors.Join(errs...)
}

// VolumeCondition makes an event, at each task that mounts the group's volume of this alias, of the volume's condition,
// by the word of its plugin or as the node sees it. A task that heard the same last gets none, also after a restart of
// the agent; that all is well is news only after the opposite.
func (r *Runner) VolumeCondition(alias string, c volume.Condition) {
	text := fmt.Sprintf("volume %q is in a normal condition again", alias)
	switch {
	case c.Abnormal && c.Seen:
		text = fmt.Sprintf("the storage of volume %q is dead: %s", alias, c.Message)
	case c.Abnormal:
		text = fmt.Sprintf("the plugin of volume %q calls its condition abnormal: %s", alias,
			cmp.Or(c.Message, "without a reason"))
	}
	for _, t := range r.users(alias) {
		if t.HeardAbnormal(alias) == c.Abnormal {
			continue
		}
		t.Emit(&alloc.TaskEvent{
			Type:           alloc.EventVolumeCondition,
			DisplayMessage: text,
			Message:        text,
			Details:        map[string]string{"volume": alias, "abnormal": strconv.FormatBool(c.Abnormal)},
		})
	}
}

// DiskExceeded ends every task that lives or is about to, because the alloc takes more of the disk than it may: what
// they wrote stays, so that starting one again would end as it did before. Nothing of an orphan is ended but by a
// person.
func (r *Runner) DiskExceeded(reason string) {
	if r.Orphan() != nil || r.Barred() != "" {
		return
	}
	for _, n := range r.order {
		t := r.tasks[n]
		if gone, _ := t.ProcessGone(); !gone || t.Begins() {
			text := fmt.Sprintf("Task %q is stopped: %s", n, reason)
			t.Kill(taskrunner.KillOrder{Why: alloc.EventDiskExceeded, Message: text, Fail: true})
		}
	}
}

// users are the tasks that mount the group's volume of this alias.
func (r *Runner) users(alias string) []*taskrunner.Runner {
	var out []*taskrunner.Runner
	for _, t := range r.Bundle().Job.Group(r.Bundle().Alloc.TaskGroup).Tasks {
		uses := slices.ContainsFunc(t.VolumeMounts, func(m *job.VolumeMount) bool { return m.Volume == alias })
		if runner := r.tasks[t.Name]; uses && runner != nil {
			out = append(out, runner)
		}
	}
	return out
}

// giveKills hands the orders to end on to the tasks.
func (r *Runner) giveKills(o alloc.AllocOrders, f alloc.AllocFacts) {
	for _, k := range o.Kill {
		r.tasks[k.Task].Kill(r.killOrder(k, f))
	}
}

func (r *Runner) killOrder(k alloc.KillOrder, f alloc.AllocFacts) taskrunner.KillOrder {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := taskrunner.KillOrder{Why: k.Why, Fail: k.Fail, NoDelay: r.rec.Bundle.Alloc.NoShutdownDelay}
	switch k.Why {
	case alloc.EventSiblingFailed:
		o.Message = "Task's sibling failed"
		for _, t := range f.Tasks {
			if t.Failed && t.State == alloc.TaskDead && t.Role != alloc.RolePoststop {
				o.Message = fmt.Sprintf("Task's sibling %q failed", t.Name)
				break
			}
		}
	case alloc.EventLeaderDead:
		o.Message = "Leader Task in Group dead"
	case alloc.EventMainDead:
		o.Message = "Main tasks in the group died"
	case alloc.EventSetupFailure:
		o.Message, o.Storage = r.rec.Refused, r.rec.RefusedForStorage
	case alloc.EventOverdue:
		o.Message = fmt.Sprintf("Task %q is stopped: the allocation has run for %s, as long as its group's "+
			"max_run_duration allows", k.Task, *r.group().MaxRunDuration)
	case alloc.EventKilling:
		o.Message = r.rec.Stopped
	}
	return o
}
