package taskrunner

import (
	"context"
	"errors"
	"maps"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/derive/taskenv"
	"berth/internal/model/alloc"
	"berth/internal/model/cores"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// prepare runs the prestart hooks of a coming start. A hook that is not ready keeps the task pending, with an event.
func (r *Runner) prepare(ctx context.Context) {
	if r.hasStarted() {
		r.sayReady() // the hooks of the alloc are done
	} else {
		const text = "Building Task Directory"
		r.emit(&alloc.TaskEvent{Type: alloc.EventTaskSetup, DisplayMessage: text, Message: text,
			Details: map[string]string{"message": text}})
	}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if err := r.driverKnown(); err != nil {
			r.say(alloc.EventDriver, err)
			pause.Sleep(ctx, attempt+1)
			continue
		}
		err := r.prestart(ctx, false)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.mu.Lock()
			r.prepared, r.said = true, ""
			r.mu.Unlock()
			r.sayReady()
			return
		case !fault.Has(err, fault.NotReady):
			event := alloc.EventHookFailed
			if own := (*hook.Failure)(nil); errors.As(err, &own) {
				event = own.Event
			}
			r.refuse(event, err)
			return
		}
		r.say(alloc.EventStorageWaiting, err)
		pause.Sleep(ctx, attempt+1)
	}
}

// driverKnown reports, as fault.NotReady, that nobody knows yet what the task's driver takes and can do: its plugin has
// not been connected since the agent began.
func (r *Runner) driverKnown() error {
	_, _, task := r.current()
	d, err := r.cfg.Drivers.Dispense(task.Driver)
	if err != nil || !d.Info().Unknown {
		return nil // one that is not there is refused where it is used
	}
	return fault.New(fault.NotReady, "prepare", r.subject(), "the plugin of driver "+d.Name()+" is not connected yet")
}

// prestart runs one round of prestart hooks, in order, and keeps what they contribute.
func (r *Runner) prestart(ctx context.Context, restored bool) error {
	t, err := r.hookTask()
	if err != nil {
		return err
	}
	t.Restored = restored
	for _, h := range r.cfg.Hooks {
		p, ok := h.(hook.Prestarter)
		if !ok {
			continue
		}
		if err := p.Prestart(ctx, t); err != nil {
			return fault.Note(err, h.Name(), "")
		}
	}
	r.mu.Lock()
	r.out = t.Out
	r.mu.Unlock()
	return nil
}

// restoredHooks repeats the hooks for a process that was found running: they verify and return at once. They wait for
// the hooks of the alloc, whose results they read; the process is watched meanwhile.
func (r *Runner) restoredHooks(ctx context.Context) {
	for {
		changed := r.wake.C()
		r.mu.Lock()
		ready, over := r.orders.ready && r.live != nil, r.dead || r.rec.Handle == nil
		r.mu.Unlock()
		if over {
			return
		}
		if ready {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
	for attempt := 0; ; attempt++ {
		err := r.prestart(ctx, true)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			r.poststart(ctx)
			return
		}
		r.say(alloc.EventHookFailed, err)
		if _, gone := r.Live(); gone != nil || !pause.Sleep(ctx, attempt+1) {
			return
		}
	}
}

func (r *Runner) poststart(ctx context.Context) {
	t, err := r.hookTask()
	if err != nil {
		r.hookFailed("poststart", err)
		return
	}
	r.mu.Lock()
	t.Out, t.Restored = r.out, r.restored
	r.mu.Unlock()
	for _, h := range r.cfg.Hooks {
		if p, ok := h.(hook.Poststarter); ok && ctx.Err() == nil {
			if err := p.Poststart(ctx, t); err != nil && ctx.Err() == nil {
				r.hookFailed(h.Name(), err)
			}
		}
	}
}

// hookTask is what hooks see of the task now.
func (r *Runner) hookTask() (*hook.Task, error) {
	b, group, task := r.current()
	d, err := r.cfg.Drivers.Dispense(task.Driver)
	if err != nil {
		return nil, err
	}
	env, err := r.env(b, group, task, d.Info(), nil)
	if err != nil {
		return nil, err
	}
	t := &hook.Task{
		Alloc:      b.Alloc,
		Job:        b.Job,
		Group:      group,
		Task:       task,
		User:       hook.OwnerOf(task, d.Info()),
		DriverInfo: d.Info(),
		Dir:        r.cfg.Dir.Path(),
		AllocDir:   r.cfg.Dir.SharedDir(),
		TaskDir:    r.cfg.Dir.TaskDir(task.Name),
		Mounts:     r.cfg.Mounts,
		Attempt:    r.attempt() + 1,
		Emit:       r.Emit,
		Control:    control{r},
		Out:        hook.Output{Env: map[string]string{}},
	}
	now := func() (taskenv.Env, error) {
		if t.Out.Secrets == nil {
			return env.With(t.Out.Env), nil
		}
		env, err := r.env(b, group, task, d.Info(), t.Out.Secrets())
		return env.With(t.Out.Env), err
	}
	t.Interpolate = func(s string) (string, error) {
		env, err := now()
		if err != nil {
			return "", err
		}
		return env.Replace(s)
	}
	t.Variables = func() map[string]string {
		env, err := now()
		if err != nil { // it grew too large with the secrets: the start says so
			return map[string]string{}
		}
		return env.All()
	}
	return t, nil
}

func (r *Runner) env(
	b alloc.Bundle, group *job.TaskGroup, task *job.Task, info driver.Info, secrets redact.Map,
) (taskenv.Env, error) {
	return NewEnv(EnvSource{
		Secrets:      secrets,
		Bundle:       b,
		Group:        group,
		Task:         task,
		Node:         r.cfg.Host.Node(),
		Region:       r.cfg.Region,
		ParentCgroup: r.cfg.ParentCgroup,
		Network:      r.cfg.Network.Status(),
		Caps:         r.cfg.Caps,
		Dir:          r.cfg.Dir,
		Isolation:    info.Capabilities.FSIsolation,
	})
}

func (r *Runner) attempt() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Attempt
}

func (r *Runner) hasStarted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Attempt > 0
}

// taskConfig is what the driver gets: the job's wishes, interpolated and checked, with what the hooks contributed.
func (r *Runner) taskConfig() (driver.Driver, *driver.TaskConfig, error) {
	b, group, task := r.current()
	d, err := r.cfg.Drivers.Dispense(task.Driver)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	out, attempt := r.out, r.rec.Attempt
	r.mu.Unlock()
	var secrets redact.Map
	if out.Secrets != nil {
		secrets = out.Secrets()
	}
	env, err := r.env(b, group, task, d.Info(), secrets)
	if err != nil {
		return nil, nil, err
	}
	env = env.With(out.Env)
	replaced, err := env.ReplaceAll(task.Config)
	if err != nil {
		return nil, nil, fault.Note(err, "read config of", r.subject())
	}
	config, err := d.Info().Schema.Read(d.Name(), replaced)
	if err != nil {
		return nil, nil, fault.Note(err, "read config of", r.subject())
	}
	asked := b.Alloc.Resources.Tasks[task.Name]
	given, err := r.cfg.Caps.Grant(driver.Resources{
		CPUShares:   asked.CPUShares,
		MemoryMB:    asked.MemoryMB,
		MemoryMaxMB: asked.MemoryMaxMB,
		PIDs:        asked.PIDs,
		CpusetCores: cores.Format(asked.Cores),
	})
	if err != nil {
		return nil, nil, fault.Note(err, "start", r.subject())
	}
	cfg := &driver.TaskConfig{
		Alloc:         b.Alloc.ID,
		Job:           string(b.Job.ID),
		Group:         group.Name,
		Task:          task.Name,
		Attempt:       attempt,
		User:          hook.UserOf(task, d.Info()),
		Env:           maps.Clone(env.Vars),
		Config:        config,
		Resources:     given,
		Logs:          logConfig(task.LogConfig, r.cfg.Dir),
		AllocDir:      r.cfg.Dir.SharedDir(),
		TaskDir:       r.cfg.Dir.TaskDir(task.Name),
		Mounts:        out.Mounts,
		Devices:       out.Devices,
		Network:       r.cfg.Network.Get(),
		CSIPluginNode: out.CSIPluginNode,
	}
	if n := r.cfg.Network.Status(); n != nil {
		cfg.Address = n.Address
	}
	for _, p := range b.Alloc.Resources.Ports {
		cfg.Ports = append(cfg.Ports, driver.Port{Label: p.Label, Value: p.Value, To: p.To, HostIP: p.HostIP})
	}
	return d, cfg, nil
}

func logConfig(l *job.LogConfig, dir allocdir.Dir) driver.LogConfig {
	c := driver.LogConfig{Dir: dir.LogDir(), MaxFiles: 10, MaxBytes: 10 << 20}
	if l != nil {
		c.Disabled = l.Disabled
		if l.MaxFiles > 0 {
			c.MaxFiles = l.MaxFiles
		}
		if l.MaxFileSizeMB > 0 {
			c.MaxBytes = int64(l.MaxFileSizeMB) << 20
		}
	}
	return c
}

// start starts the process, and takes up what a start has begun that was cut off.
func (r *Runner) start(ctx context.Context) {
	cutOff := false
	err := r.update(func(rec *localstate.Task) {
		if cutOff = rec.Starting; !cutOff {
			rec.Attempt++
			rec.Starting = true
			rec.OOMKills = 0
		}
	})
	if err != nil {
		r.refuse(alloc.EventSetupFailure, err)
		return
	}
	// Of a start that was cut off a process may live: it is aborted when nothing is to be started any more.
	failed := func(event string, err error) {
		if !cutOff {
			r.notBegun()
		}
		r.refuse(event, err)
	}
	d, cfg, err := r.taskConfig()
	if err != nil {
		failed(alloc.EventSetupFailure, err)
		return
	}
	live, err := d.Start(ctx, cfg)
	if over := (*driver.AttemptOver)(nil); errors.As(err, &over) {
		r.passAttempt(over)
		return
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return
	case fault.Has(err, fault.NotReady):
		if !cutOff {
			r.notBegun()
		}
		r.say(alloc.EventDriver, err)
		pause.Sleep(ctx, steady)
		return
	default:
		failed(alloc.EventDriverFailure, err)
		return
	}
	r.started(ctx, live, cfg)
}

// started writes a process's handle down before anything relies on it.
func (r *Runner) started(ctx context.Context, live driver.Task, cfg *driver.TaskConfig) {
	h := live.Handle()
	capped := r.memoryCap(cfg)
	err := r.update(func(rec *localstate.Task) {
		r.live, r.restored = live, false
		rec.Handle = &h
		rec.MemoryCapMB = capped
		rec.Starting = false
		rec.Started = true
		rec.Again = rec.Again && !r.orders.due // one that started before its turn starts once more
		rec.State.State = alloc.TaskRunning
		rec.State.StartedAt = time.Now()
		rec.State.FinishedAt = time.Time{}
		r.addEvent(rec, &alloc.TaskEvent{Type: alloc.EventStarted, DisplayMessage: "Task started by client"})
	})
	if err != nil {
		// A process that the next agent run could not find must not run.
		r.emit(&alloc.TaskEvent{
			Type:           alloc.EventDriverFailure,
			DisplayMessage: "The task is stopped, because its handle could not be written: " + err.Error(),
		})
		if r.end(ctx, live) {
			r.refuse(alloc.EventSetupFailure, err)
		}
		return
	}
	r.poststart(ctx)
}

// memoryCap is the memory limit that a task has by the node's cap and not by its job, or 0.
func (r *Runner) memoryCap(cfg *driver.TaskConfig) int64 {
	b, _, task := r.current()
	if cfg.Resources.MemoryMaxMB == b.Alloc.Resources.Tasks[task.Name].MemoryMaxMB {
		return 0
	}
	return cfg.Resources.MemoryMaxMB
}

// passAttempt gives up the number of an attempt that was cut off, or that the shim knows a later one of: the next try
// takes a new one. Nobody failed, so nothing is counted.
func (r *Runner) passAttempt(over *driver.AttemptOver) {
	_ = r.update(func(rec *localstate.Task) { // said by update; the next run of the agent comes here again
		rec.Attempt, rec.Starting = max(rec.Attempt, over.Newest), false
	})
}

// notBegun notes that nothing of a start is there.
func (r *Runner) notBegun() {
	_ = r.update(func(rec *localstate.Task) { rec.Starting = false }) // said by update; it is aborted otherwise
}

// refuse ends a start that did not happen: for good when the error will not pass, else by the restart policy.
func (r *Runner) refuse(event string, err error) {
	ending := alloc.StartFailed
	if final(err) {
		ending = alloc.StartRefused
	}
	text := err.Error()
	e := &alloc.TaskEvent{Type: event, DisplayMessage: text, Message: text, FailsTask: ending == alloc.StartRefused}
	if unfit(err) && !r.View().Started {
		e.Details = map[string]string{alloc.DetailUnfit: "true"}
	}
	if hook.IsForStorage(err) {
		e.Details = map[string]string{alloc.DetailStorage: "true"}
	}
	r.emit(e)
	r.conclude(ending, 0)
}

// unfit reports errors that lie in what the task asks for, and not in what its node happens to lack at the moment: the
// next alloc of the same version would meet the same on this node.
func unfit(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Unsupported, fault.Denied:
		return true
	}
	return false
}

// final reports errors that trying again can't mend.
func final(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Unsupported, fault.Denied, fault.NotFound:
		return true
	}
	own := (*hook.Failure)(nil)
	return errors.As(err, &own) && own.Final
}

// sayReady says that what the task waited for is there, where that it waits is the last that was said of it: what does
// not hold any more is no reason.
func (r *Runner) sayReady() {
	all := r.State().Events
	if len(all) == 0 || !all[len(all)-1].Waits() {
		return
	}
	event := alloc.EventStorageReady
	if all[len(all)-1].Type == alloc.EventNetworkWaiting {
		event = alloc.EventNetworkReady
	}
	const text = "What the start waited for is there"
	r.emit(&alloc.TaskEvent{Type: event, DisplayMessage: text, Message: text})
}

// say makes an event of a reason for waiting, once per reason.
func (r *Runner) say(event string, err error) {
	text := err.Error()
	r.mu.Lock()
	same := r.said == text
	r.said = text
	r.mu.Unlock()
	if !same {
		r.emit(&alloc.TaskEvent{Type: event, DisplayMessage: text, Message: text})
	}
}
