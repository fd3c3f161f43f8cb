package taskrunner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// exitGrace is how long a process's exit may take to be told after its stop succeeded.
const exitGrace = time.Second

// recover finds the recorded process again. Until that succeeded, or it is certain that no process is left, the task is
// neither failed nor started anew nor reported as ended.
func (r *Runner) recover(ctx context.Context) {
	r.mu.Lock()
	h := *r.rec.Handle
	r.mu.Unlock()
	for attempt := 0; ctx.Err() == nil; attempt++ {
		live, err := r.cfg.Drivers.Recover(ctx, h)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.mu.Lock()
			r.live, r.said = live, ""
			r.mu.Unlock()
			if attempt > 0 {
				r.emit(&alloc.TaskEvent{Type: alloc.EventRecovered, DisplayMessage: "The running task was found again"})
			}
			r.wake.Notify()
			return
		case fault.Has(err, fault.NotFound):
			r.mu.Lock()
			if r.exit = r.rec.Exit; r.exit == nil {
				r.exit = &driver.ExitResult{Unknown: true, Ended: time.Now()}
			}
			r.mu.Unlock()
			return
		}
		r.say(alloc.EventDriver, fault.Note(err, "recovering: the task may run, it is looked for again", ""))
		pause.Sleep(ctx, attempt+1)
	}
}

// watch waits for the exit of the process.
func (r *Runner) watch(ctx context.Context) {
	r.interruptible(ctx, func(ctx context.Context) {
		live, err := r.Live()
		if err != nil {
			return // it has ended already: the flow sees that next
		}
		g, gctx := lifecycle.NewGroup(ctx)
		if c, ok := live.(driver.OOMCounter); ok {
			g.Go("look for kills", func() error { r.lookForKills(gctx, c); return nil })
		}
		res, err := live.Wait(ctx)
		g.Stop()
		_ = g.Wait() // its child returns no error
		switch {
		case err == nil:
			r.mu.Lock()
			r.exit = &res
			r.mu.Unlock()
		case ctx.Err() == nil:
			r.say(alloc.EventDriver, fault.Note(err, "watch", r.subject()))
			pause.Sleep(ctx, steady)
		}
	})
}

// How often it is looked for kills, and how rarely once there were many: a history holds a few events.
const (
	killsEvery  = 10 * time.Second
	killsRarely = 10 * time.Minute
)

// lookForKills makes an event of processes of a running task that the kernel killed for its memory limit. The task may
// go on without them, and then nothing else says why they ended.
func (r *Runner) lookForKills(ctx context.Context, c driver.OOMCounter) {
	for pause := killsEvery; retry.Sleep(ctx, pause); {
		kills := c.OOMKills()
		r.mu.Lock()
		seen := r.rec.OOMKills
		r.mu.Unlock()
		if kills <= seen {
			continue
		}
		pause = min(2*pause, killsRarely)
		_, _, task := r.current()
		_ = r.update(func(rec *localstate.Task) { // said by update
			rec.OOMKills = kills
			r.addEvent(rec, alloc.OOMEvent(kills, task, rec.MemoryCapMB))
		})
	}
}

// stop ends a running process, because the task is to end or to restart.
func (r *Runner) stop(ctx context.Context) {
	_, _, task := r.current()
	r.mu.Lock()
	live := r.live
	kill := r.orders.kill
	restart, failed := r.orders.restart, r.orders.failed
	noDelay := r.orders.noDelay
	r.mu.Unlock()
	grace := r.killTimeout(task)
	if kill != nil && !r.saidToEnd(kill.Why) {
		r.emit(killEvent(*kill, task, grace))
	}
	g, gctx := lifecycle.NewGroup(ctx)
	exit := make(chan driver.ExitResult, 1)
	g.Go("wait for exit", func() error {
		res, err := live.Wait(gctx)
		if err == nil {
			exit <- res
		}
		return nil // the exit is unknown then
	})
	if kill != nil {
		noDelay = kill.NoDelay
	}
	r.leave(ctx)
	if !noDelay {
		r.shutdownDelay(ctx, task.ShutdownDelay, exit)
	}
	stopped := r.endWith(ctx, live, task.KillSignal, grace)
	res := driver.ExitResult{Unknown: true, Ended: time.Now()}
	if stopped {
		select {
		case res = <-exit:
		case <-time.After(exitGrace):
		}
	}
	g.Stop()
	_ = g.Wait() // its child returns no error
	if !stopped {
		return
	}
	verdict := keep
	if kill == nil && restart != "" {
		verdict = r.verdict(restartEnding(failed), 0)
	}
	r.gone(ctx, res, kill != nil, verdict)
}

// leave has it said that the task is about to end.
func (r *Runner) leave(ctx context.Context) {
	t, err := r.hookTask()
	if err != nil {
		return // its texts can't be put together, and nothing was said of it
	}
	for _, h := range r.cfg.Hooks {
		if l, ok := h.(hook.Leaver); ok {
			l.Leave(ctx, t)
		}
	}
}

// shutdownDelay waits before the signal, so that whoever sends requests can look elsewhere first.
func (r *Runner) shutdownDelay(ctx context.Context, d time.Duration, exit chan driver.ExitResult) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case res := <-exit:
		exit <- res
	}
}

func (r *Runner) killTimeout(task *job.Task) time.Duration {
	if r.cfg.MaxKillTimeout > 0 {
		return min(task.KillTimeout, r.cfg.MaxKillTimeout)
	}
	return task.KillTimeout
}

// end stops a process until it is proven gone; false when ctx ended before.
func (r *Runner) end(ctx context.Context, live driver.Task) bool { return r.endWith(ctx, live, "", 0) }

func (r *Runner) endWith(ctx context.Context, live driver.Task, signal string, grace time.Duration) bool {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		err := live.Stop(ctx, signal, grace)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			// The history of a task holds a few events; whoever looks for what holds up a stop looks in the log.
			r.cfg.Log.Warn("a task could not be stopped; it is tried again",
				logkey.Task, r.cfg.Task, logkey.Attempt, r.attempt(), "tries", attempt+1, logkey.Error, err)
			r.say(alloc.EventDriver, fault.Note(err, "stop", r.subject()))
			pause.Sleep(ctx, attempt+1)
		}
	}
	return false
}

// abort ends what a start may have left that was cut off, by its kill or by the death of the agent that made it.
func (r *Runner) abort(ctx context.Context) {
	b, _, task := r.current()
	for tries := 0; ctx.Err() == nil; tries++ {
		d, err := r.cfg.Drivers.Dispense(task.Driver)
		if err == nil {
			err = d.Abort(ctx, b.Alloc.ID, task.Name, r.attempt())
		}
		if err == nil {
			r.notBegun()
			return
		}
		if ctx.Err() == nil {
			r.say(alloc.EventDriver, fault.Note(err, "stop what was being started of", r.subject()))
			pause.Sleep(ctx, tries+1)
		}
	}
}

// collect ends what an exited process left behind and asks the restart policy.
func (r *Runner) collect(ctx context.Context) {
	r.mu.Lock()
	live := r.live
	exit := *r.exit
	started := r.rec.State.StartedAt
	r.mu.Unlock()
	if live != nil {
		// With its end the driver forgets how it ended: a task that ended well must not run again for that.
		_ = r.update(func(rec *localstate.Task) { rec.Exit = &exit }) // said by update; the driver still knows
		if !r.end(ctx, live) {
			return
		}
	}
	r.mu.Lock()
	asked, kill := r.orders.restart != "" || r.rec.Again, r.orders.kill != nil // it was to end in its turn
	failed := r.orders.failed
	r.mu.Unlock()
	verdict := keep
	switch {
	case kill:
	case asked:
		verdict = r.verdict(restartEnding(failed), 0)
	case exit.Successful():
		verdict = r.verdict(alloc.EndedWell, exit.Ended.Sub(started))
	default:
		verdict = r.verdict(alloc.EndedBadly, exit.Ended.Sub(started))
	}
	r.gone(ctx, exit, false, verdict)
}

// keep leaves to what has the task killed what becomes of it.
func keep(*localstate.Task) {}

// restartEnding is how a run ended that somebody ended: one whose checks failed has failed.
func restartEnding(failed bool) alloc.Ending {
	if failed {
		return alloc.EndedBadly
	}
	return alloc.RestartAsked
}

// gone runs the hooks for the end of a process, and then notes that none is left, and the verdict on what follows with
// it, in one write: a record that said the one without the other would have a task that ended well run again after a
// crash. Until then it has the process and how it ended, from which an agent that starts comes here again.
func (r *Runner) gone(ctx context.Context, res driver.ExitResult, killed bool, verdict func(*localstate.Task)) {
	r.mu.Lock()
	r.live = nil
	r.mu.Unlock()
	// Without it the driver is gone from this node, and no hook ran for it in this agent run.
	if t, err := r.hookTask(); err == nil {
		for _, h := range r.cfg.Hooks {
			e, ok := h.(hook.Exiter)
			if !ok {
				continue
			}
			if err := e.Exited(ctx, t); err != nil && ctx.Err() == nil {
				r.hookFailed(h.Name(), err)
			} else if err != nil {
				return // it was cut off: the next agent run does it again
			}
		}
	}
	_ = r.update(func(rec *localstate.Task) { // said by update; the next agent run finds no process and says so again
		r.exit = nil
		r.prepared = false
		rec.Handle, rec.Exit = nil, nil
		if res.Unknown && res.Err == "" && !killed { // whoever knows why has said it
			r.addEvent(rec,
				&alloc.TaskEvent{
					Type:           alloc.EventShimDied,
					DisplayMessage: "The process that held the task died; how the task ended is unknown",
				})
		}
		r.addEvent(rec, exitEvent(res, rec.MemoryCapMB))
		if killed {
			r.addEvent(rec, &alloc.TaskEvent{Type: alloc.EventKilled, DisplayMessage: "Task successfully killed"})
		}
		verdict(rec)
	})
}

// conclude applies the restart policy to a start that did not happen.
func (r *Runner) conclude(e alloc.Ending, ran time.Duration) {
	_ = r.update(r.verdict(e, ran)) // said by update
}

// verdict is what the restart policy makes of an end.
func (r *Runner) verdict(e alloc.Ending, ran time.Duration) func(*localstate.Task) {
	b, group, task := r.current()
	policy := task.RestartPolicy
	if policy == nil {
		policy = group.RestartPolicy
	}
	r.mu.Lock()
	unlimited := task.CSIPluginConfig != nil || r.out.RestartWithoutLimit
	memory, held := r.rec.Memory, r.orders.held
	r.mu.Unlock()
	now := time.Now()
	v := alloc.NextRestart(alloc.RestartFacts{
		Now:       now,
		Ending:    e,
		Memory:    memory,
		Policy:    policy,
		JobType:   b.Job.Type,
		Role:      alloc.RoleOf(task),
		Held:      held,
		Stopping:  b.Alloc.ServerTerminal(),
		Unlimited: unlimited,
		Ran:       ran,
		Jitter:    rand.Float64(),
	})
	return func(rec *localstate.Task) {
		r.orders.restart, r.prepared = "", false
		r.orders.failed = false
		rec.Memory = v.Memory
		if !v.Restart {
			rec.Over, rec.State.Failed = true, v.Failed
			if v.Failed || e != alloc.EndedWell {
				r.addEvent(rec,
					&alloc.TaskEvent{
						Type:           alloc.EventNotRestarting,
						DisplayMessage: v.Reason,
						Message:        v.Reason,
						FailsTask:      v.Failed,
					})
			}
			return
		}
		rec.NotBefore = now.Add(v.Delay)
		rec.State.State, rec.State.LastRestart = alloc.TaskPending, now
		rec.State.Restarts++
		r.addEvent(rec,
			&alloc.TaskEvent{
				Type:           alloc.EventRestarting,
				DisplayMessage: "Task restarting in " + v.Delay.Round(100*time.Millisecond).String(),
				Message:        v.Reason,
				Details: map[string]string{"start_delay": fmt.Sprint(int64(v.Delay)),
					"restart_reason": v.Reason},
			})
	}
}

// finish runs the stop hooks; after that the task is dead.
func (r *Runner) finish(ctx context.Context) {
	if t, err := r.hookTask(); err == nil {
		for _, h := range r.cfg.Hooks {
			if s, ok := h.(hook.Stopper); ok && !r.stopHook(ctx, s, t) {
				return
			}
		}
	}
	_ = r.update(func(rec *localstate.Task) { // said by update; the next agent run comes here again
		r.dead = true
		if k := r.orders.kill; k != nil && !rec.Over {
			if k.Fail {
				rec.State.Failed = true
			}
			if k.Message != "" && !rec.Started {
				e := &alloc.TaskEvent{Type: k.Why, DisplayMessage: k.Message, Message: k.Message, FailsTask: k.Fail}
				if k.Storage {
					e.Details = map[string]string{alloc.DetailStorage: "true"}
				}
				r.addEvent(rec, e)
			}
		}
		if r.orders.held && r.orders.kill == nil && !rec.Over {
			rec.State.Failed = true
			r.addEvent(rec,
				&alloc.TaskEvent{
					Type:           alloc.EventNotRestarting,
					DisplayMessage: alloc.HeldReason,
					Message:        alloc.HeldReason,
					FailsTask:      true,
				})
		}
		rec.Starting, rec.Over = false, true
		rec.State.State, rec.State.FinishedAt = alloc.TaskDead, time.Now()
	})
}

// stopHook repeats a stop hook until it succeeded; false when ctx ended before.
func (r *Runner) stopHook(ctx context.Context, s hook.Stopper, t *hook.Task) bool {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		err := s.Stop(ctx, t)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			r.say(alloc.EventHookFailed, fault.Note(err, s.Name(), ""))
			pause.Sleep(ctx, attempt+1)
		}
	}
	return false
}

func exitEvent(res driver.ExitResult, memoryCapMB int64) *alloc.TaskEvent {
	text := fmt.Sprintf("Exit Code: %d", res.ExitCode)
	switch {
	case res.Unknown:
		text = "Exit Code: unknown"
	case res.Signal != 0:
		text += fmt.Sprintf(", Signal: %d", res.Signal)
	}
	if res.OOMKilled {
		text += `, Exit Message: "OOM Killed"`
	} else if res.Err != "" {
		text += fmt.Sprintf(", Exit Message: %q", res.Err)
	}
	e := &alloc.TaskEvent{
		Type:           alloc.EventTerminated,
		DisplayMessage: text,
		ExitCode:       res.ExitCode,
		Signal:         res.Signal,
		Details: map[string]string{"exit_code": fmt.Sprint(res.ExitCode), "signal": fmt.Sprint(res.Signal),
			"oom_killed": fmt.Sprint(res.OOMKilled)},
	}
	if res.OOMKilled {
		alloc.NoteMemoryCap(e, memoryCapMB)
	}
	if res.Unknown {
		delete(e.Details, "exit_code")
	}
	if !res.Ended.IsZero() {
		e.Time = res.Ended.UnixNano()
	}
	return e
}

// saidToEnd reports whether an earlier run of the agent has said that it ends the process: its time began then.
func (r *Runner) saidToEnd(why string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.rec.State.Events) {
		if e.Type == why || e.Type == alloc.EventStarted {
			return e.Type == why
		}
	}
	return false
}

func killEvent(k KillOrder, task *job.Task, grace time.Duration) *alloc.TaskEvent {
	signal := task.KillSignal
	if signal == "" {
		signal = "interrupt"
	}
	text := fmt.Sprintf("Sent %s. Waiting %s before force killing", signal, grace)
	switch {
	case k.Why != alloc.EventKilling && k.Message != "":
		text = k.Message
	case k.Message != "":
		text = k.Message + ": " + text
	}
	return &alloc.TaskEvent{
		Type:           k.Why,
		DisplayMessage: text,
		Message:        k.Message,
		FailsTask:      k.Fail,
		Details:        map[string]string{"kill_timeout": grace.String()},
	}
}
