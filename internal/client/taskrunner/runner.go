// Package taskrunner owns the life of one task on its node: it takes the steps that model/alloc's task flow decides,
// writes down what it must not forget before it relies on it, and finds the process again after the agent restarted.
// Only client/allocrunner imports it.
package taskrunner

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver"
)

// pause is the wait between two tries of the same step.
var pause = retry.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second}

// steady is the failures after which a process that is there is asked again.
const steady = 3

// Drivers gives drivers by name and finds tasks again; client/drivermanager implements it.
type Drivers interface {
	Dispense(name string) (driver.Driver, error)
	Recover(ctx context.Context, h driver.TaskHandle) (driver.Task, error)
}

// Owner is the alloc that a task belongs to: it keeps the task's record, and hears of its changes.
type Owner interface {
	// SaveTask writes the task's record down.
	SaveTask(task string, rec *localstate.Task) error
	// TaskChanged is called after every change of a task's state or history, with nothing held.
	TaskChanged()
}

// Host is the node that a task runs on.
type Host interface {
	// Node describes the node as it is now, frozen.
	Node() *node.Node
}

// Config wires a runner.
type Config struct {
	Owner  Owner
	Bundle alloc.Bundle
	Task   string
	Dir    allocdir.Dir
	Host   Host
	Region string
	// ParentCgroup is the cgroup below which those of all tasks lie; empty: none.
	ParentCgroup string
	Drivers      Drivers
	Hooks        []hook.Hook
	Mounts       *hook.Mounts
	Network      *hook.Network // nil: the node's own
	// Saved is what an earlier agent run wrote; nil for a new task.
	Saved *localstate.Task
	// MaxKillTimeout caps the job's kill_timeout; 0: no cap.
	MaxKillTimeout time.Duration
	Caps           driver.Caps // of what the job asks for
	Log            *slog.Logger
}

// Runner runs one task. Run does the work; the other methods give it orders or look at it, from every goroutine.
type Runner struct {
	cfg  Config
	wake lifecycle.Signal
	held struct {
		save sync.Mutex // from a change to its write, so that writes come in the order of changes
		run  sync.Mutex // by Run: one that was dead and runs anew waits for its last run to return
	}

	mu     sync.Mutex
	bundle alloc.Bundle
	rec    localstate.Task
	orders orders
	live   driver.Task
	exit   *driver.ExitResult // of the process that is not collected yet
	out    hook.Output        // of the present round of prestart hooks
	// prepared: the prestart hooks of the coming start are done.
	prepared bool
	restored bool // the process was started by an earlier agent run
	dead     bool
	// interrupt ends what the present step waits for, so that an order is heard.
	interrupt context.CancelFunc
	said      string // the last reason for waiting that became an event
	// unsaid is what storage the hooks of the alloc wait for while the task runs.
	unsaid *alloc.TaskEvent
}

// orders are what others want of the task.
type orders struct {
	due   bool // its turn in the lifecycle has come
	ready bool // the hooks of the alloc are done
	held  bool // the alloc is an orphan
	// suspended says why nothing may be begun with a volume of the alloc; empty: it may.
	suspended string
	kill      *KillOrder
	restart   string // why; empty: not asked
	noDelay   bool   // the restart leaves out the shutdown_delay
	failed    bool   // the restart counts as one after a failure
}

// urgent reports an order for which the present step is cut short.
func (o *orders) urgent(live driver.Task) bool {
	return o.kill != nil || o.restart != "" && o.suspended == "" && live != nil
}

// KillOrder ends a task.
type KillOrder struct {
	Why     string // type of the event
	Message string
	Fail    bool
	Storage bool // it is for the sake of storage
	NoDelay bool
}

// New returns a runner that does nothing before Run.
func New(cfg Config) *Runner {
	r := &Runner{cfg: cfg, bundle: cfg.Bundle, rec: localstate.Task{State: alloc.TaskState{State: alloc.TaskPending}}}
	if cfg.Saved != nil {
		r.rec = *cfg.Saved
		r.restored = r.rec.Handle != nil
		r.dead = r.rec.State.State == alloc.TaskDead
	}
	return r
}

// Run takes the task's steps until it is dead or ctx ends. The end of ctx leaves the process running.
func (r *Runner) Run(ctx context.Context) error {
	r.held.run.Lock()
	defer r.held.run.Unlock()
	g, gctx := lifecycle.NewGroup(ctx)
	if r.restored {
		g.Go("hooks of a restored task", func() error {
			r.restoredHooks(gctx)
			return nil
		})
	}
	g.Go("steps", func() error {
		defer g.Stop()
		for gctx.Err() == nil {
			do := alloc.NextTask(r.facts(time.Now()))
			if do == alloc.TaskRest {
				return nil
			}
			r.step(gctx, do)
		}
		return nil
	})
	return g.Wait()
}

func (r *Runner) step(ctx context.Context, do alloc.TaskDo) {
	switch do {
	case alloc.TaskAwait, alloc.TaskPause:
		r.await(ctx)
	case alloc.TaskPrepare:
		r.interruptible(ctx, r.prepare)
	case alloc.TaskStart:
		r.interruptible(ctx, r.start)
	case alloc.TaskRecover:
		r.recover(ctx)
	case alloc.TaskWatch:
		r.watch(ctx)
	case alloc.TaskStop:
		r.stop(ctx)
	case alloc.TaskAbort:
		r.abort(ctx)
	case alloc.TaskCollect:
		r.collect(ctx)
	case alloc.TaskFinish:
		r.finish(ctx)
	}
}

func (r *Runner) facts(now time.Time) alloc.TaskFacts {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := alloc.TaskFacts{
		Now:       now,
		Dead:      r.dead,
		Due:       r.orders.due,
		Kill:      r.orders.kill != nil,
		Restart:   r.orders.restart != "",
		Prepared:  r.prepared,
		Over:      r.rec.Over,
		NotBefore: r.rec.NotBefore,
		Held:      r.orders.held,
		Suspended: r.orders.suspended != "",
	}
	switch {
	case r.exit != nil:
		f.Process = alloc.ProcessExited
	case r.live != nil:
		f.Process = alloc.ProcessAttached
	case r.rec.Handle != nil:
		f.Process = alloc.ProcessRecorded
	case r.rec.Starting:
		f.Process = alloc.ProcessBegun
	}
	return f
}

// await waits for an order, or until the pause before a restart is over.
func (r *Runner) await(ctx context.Context) {
	changed := r.wake.C()
	f := r.facts(time.Now())
	var alarm <-chan time.Time
	switch alloc.NextTask(f) {
	case alloc.TaskPause:
		t := time.NewTimer(f.NotBefore.Sub(f.Now))
		defer t.Stop()
		alarm = t.C
	case alloc.TaskAwait:
		r.saySuspended(f)
		r.sayUnsaid(f)
	default:
		return // an order arrived meanwhile
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-alarm:
	}
}

// saySuspended makes an event of why a task whose turn has come is not started.
func (r *Runner) saySuspended(f alloc.TaskFacts) {
	if !f.Suspended || !f.Due {
		return
	}
	r.mu.Lock()
	why := r.orders.suspended
	r.mu.Unlock()
	r.say(alloc.EventStorageWaiting, fault.New(fault.NotReady, "start", r.subject(), why))
}

// sayUnsaid makes an event of what the hooks of the alloc wait for, once a task that ran meanwhile has to be started.
func (r *Runner) sayUnsaid(f alloc.TaskFacts) {
	r.mu.Lock()
	e := r.unsaid
	due := e != nil && f.Process == alloc.ProcessNone && !f.Over && !f.Dead && !f.Kill && !r.orders.ready
	if due {
		r.unsaid = nil
	}
	r.mu.Unlock()
	if due {
		r.emit(e)
	}
}

// interruptible runs a step that ends early when the task is to be killed.
func (r *Runner) interruptible(ctx context.Context, step func(context.Context)) {
	ictx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	r.interrupt = cancel
	if r.orders.urgent(r.live) {
		cancel()
	}
	r.mu.Unlock()
	step(ictx)
	r.mu.Lock()
	r.interrupt = nil
	r.mu.Unlock()
}

// update changes the record, writes it down and tells about it. A record that can't be written stays changed in memory
// and is written whole at the next change.
func (r *Runner) update(fn func(*localstate.Task)) error {
	err := r.changeAndSave(fn)
	if err != nil {
		r.cfg.Log.Error("a task's state could not be written", logkey.Task, r.cfg.Task, logkey.Error, err)
	}
	r.wake.Notify()
	r.cfg.Owner.TaskChanged()
	return err
}

func (r *Runner) changeAndSave(fn func(*localstate.Task)) error {
	r.held.save.Lock()
	defer r.held.save.Unlock()
	r.mu.Lock()
	fn(&r.rec)
	rec := r.rec
	r.mu.Unlock()
	return r.cfg.Owner.SaveTask(r.cfg.Task, &rec)
}

// emit adds an event to the history. It is written with the next change of the record: nobody relies on it.
func (r *Runner) emit(e *alloc.TaskEvent) {
	r.mu.Lock()
	r.addEvent(&r.rec, e)
	r.mu.Unlock()
	r.cfg.Owner.TaskChanged()
}

func (r *Runner) addEvent(rec *localstate.Task, e *alloc.TaskEvent) {
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	r.cfg.Log.Debug("task event", logkey.Task, r.cfg.Task, "event", e.Type, "text", e.DisplayMessage)
	rec.State.Events = append(slices.Clone(rec.State.Events), e)
	if extra := len(rec.State.Events) - alloc.MaxEvents; extra > 0 {
		rec.State.Events = rec.State.Events[extra:]
	}
}

// Emit adds an event to the task's history. What is waited for before a start it keeps to itself while the task runs
// or has ended, since what the agent asks for anew after its own restart keeps neither waiting, until the task has to
// start.
func (r *Runner) Emit(e *alloc.TaskEvent) {
	c := *e
	if e.Waits() {
		r.mu.Lock()
		waits := !r.dead && !r.rec.Over && r.live == nil && r.rec.Handle == nil
		r.unsaid = nil
		if !waits {
			r.unsaid = &c
		}
		r.mu.Unlock()
		if !waits {
			return
		}
	}
	r.emit(&c)
}

// HeardAbnormal reports whether the last that the task heard of a volume is that its condition is abnormal.
func (r *Runner) HeardAbnormal(alias string) (abnormal bool) {
	for _, e := range slices.Backward(r.State().Events) {
		if e.Type == alloc.EventVolumeCondition && e.Details["volume"] == alias {
			return e.Details["abnormal"] == "true"
		}
	}
	return false
}

// State returns a copy of the task's state.
func (r *Runner) State() *alloc.TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.rec.State
	s.Events = slices.Clone(s.Events)
	return &s
}

// View is the task's part in the alloc's flow.
func (r *Runner) View() alloc.TaskView {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.task()
	return alloc.TaskView{
		Name:       r.cfg.Task,
		Role:       alloc.RoleOf(t),
		Leader:     t.Leader,
		State:      r.rec.State.State,
		Failed:     r.rec.State.Failed,
		Started:    r.rec.Started,
		Ordered:    r.orders.kill != nil,
		Again:      r.rec.Again,
		Restarting: r.orders.restart != "",
	}
}

// ProcessGone reports whether it is proven that no process of the task is left, or in words what is there.
func (r *Runner) ProcessGone() (bool, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rec.Handle == nil && !r.rec.Starting {
		return true, ""
	}
	return false, "task " + r.cfg.Task + " has a process"
}

// Begins reports whether the task is being prepared or started: what its hooks fetch and write takes of the disk
// already.
func (r *Runner) Begins() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.interrupt != nil
}

// task is the job's description of the task. The caller holds the lock.
func (r *Runner) task() *job.Task {
	return r.group().Task(r.cfg.Task)
}

func (r *Runner) group() *job.TaskGroup { return r.bundle.Job.Group(r.bundle.Alloc.TaskGroup) }

func (r *Runner) current() (alloc.Bundle, *job.TaskGroup, *job.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bundle, r.group(), r.task()
}
