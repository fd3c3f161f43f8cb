// Package allocrunner owns the life of one alloc on its node: the hooks before its first task, the order in which its
// tasks start and end, and the hooks after its last task. It says complete or failed only when no process is left and
// the hooks have let everything go. Only package client imports it.
package allocrunner

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/client/taskrunner"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// DefaultStorageTimeout is how long an alloc waits for its storage before it fails with that reason.
const DefaultStorageTimeout = time.Hour

// Drivers is what runners need of the driver manager.
type Drivers interface {
	taskrunner.Drivers
	Info(name string) (driver.Info, error)
}

// Store is what runners need of the local store.
type Store interface {
	PutAlloc(*localstate.Alloc) error
	PutTask(id ids.Alloc, task string, t *localstate.Task) error
}

// Processes ends the processes of allocs; client/shim implements it.
type Processes interface {
	// End ends whatever process of the alloc is left and returns when none is.
	End(context.Context, ids.Alloc) error
}

// Owner hears of the allocs that run: the client's allocs.
type Owner interface {
	// AllocChanged is called after every change that the servers or a keeper want to hear of, with nothing held.
	AllocChanged(ids.Alloc)
}

// Config wires a runner. Record and Tasks become the runner's own.
type Config struct {
	Record     *localstate.Alloc
	Tasks      map[string]*localstate.Task // of an earlier agent run
	Restored   bool
	Dir        allocdir.Dir
	Store      Store
	Host       taskrunner.Host
	Region     string
	Drivers    Drivers
	AllocHooks []hook.Hook
	TaskHooks  []hook.Hook
	// Processes ends what drivers have left; nil: they leave nothing.
	Processes Processes
	// ParentCgroup: see taskrunner.Config.
	ParentCgroup string
	// StorageTimeout bounds the wait for storage; 0: DefaultStorageTimeout.
	StorageTimeout time.Duration
	MaxKillTimeout time.Duration
	Caps           driver.Caps
	// Contact is when the servers answered last; nil: they always do.
	Contact func() time.Time
	Owner   Owner
	Log     *slog.Logger
}

// Runner runs one alloc.
type Runner struct {
	cfg     Config
	mounts  *hook.Mounts
	network *hook.Network
	tasks   map[string]*taskrunner.Runner
	order   []string // names of tasks, as the job lists them
	wake    lifecycle.Signal
	turns   turns
	saving  sync.Mutex    // held from a change to its write, so that writes come in the order of changes
	updated chan struct{} // holds a token while the tasks have not heard of the newest bundle

	mu       sync.Mutex
	rec      localstate.Alloc
	hooks    hooks
	inTheWay inTheWay
	checks   *alloc.Checks // what its checks have found; nil: nothing since the agent began
	stop     stop
	ended    bool // it is proven that no process is left, and none will be started
}

// turns is held from a look at all tasks to the orders that follow from it. Revived are dead tasks that are to run
// again.
type turns struct {
	sync.Mutex
	revived chan string
}

// stop is how the alloc is stopped: when, once it is known, and whether poststop tasks are ended, too.
type stop struct {
	at    time.Time
	force bool
}

// inTheWay is what keeps the alloc from going on, in words; each is empty where nothing does.
type inTheWay struct {
	waits    string // what the hooks before the first task wait for
	handling string // what keeps the hooks after the last task from succeeding
	hindered string // why nothing of what the servers want of it can be written down
	barred   string // why it is not taken up
}

// hooks says what has become of the hooks before the first task.
type hooks struct {
	done    bool
	adopted uint64 // the adoption under which they ran last
}

// New returns a runner that does nothing before Run. A job without the alloc's group is refused.
func New(cfg Config) (*Runner, error) {
	b := cfg.Record.Bundle
	group := b.Job.Group(b.Alloc.TaskGroup)
	if group == nil {
		return nil, fault.New(fault.Invalid, "run", fmt.Sprintf("allocation %q", b.Alloc.ID),
			fmt.Sprintf("its job has no group %q", b.Alloc.TaskGroup))
	}
	if cfg.StorageTimeout <= 0 {
		cfg.StorageTimeout = DefaultStorageTimeout
	}
	cfg.Log = cfg.Log.With(logkey.Alloc, b.Alloc.ID, logkey.Job, b.Alloc.Job)
	r := &Runner{
		cfg:     cfg,
		mounts:  new(hook.Mounts),
		network: new(hook.Network),
		tasks:   map[string]*taskrunner.Runner{},
		rec:     *cfg.Record,
		turns:   turns{revived: make(chan string, len(group.Tasks))},
		updated: make(chan struct{}, 1),
	}
	for _, t := range group.Tasks {
		r.order = append(r.order, t.Name)
		r.tasks[t.Name] = r.newTask(b, t)
	}
	return r, nil
}

func (r *Runner) newTask(b alloc.Bundle, t *job.Task) *taskrunner.Runner {
	saved := r.cfg.Tasks[t.Name]
	tr := taskrunner.New(taskrunner.Config{
		Bundle:         b,
		Task:           t.Name,
		Dir:            r.cfg.Dir,
		Owner:          r,
		Host:           r.cfg.Host,
		Region:         r.cfg.Region,
		ParentCgroup:   r.cfg.ParentCgroup,
		Drivers:        r.cfg.Drivers,
		Hooks:          r.cfg.TaskHooks,
		Mounts:         r.mounts,
		Network:        r.network,
		Saved:          saved,
		MaxKillTimeout: r.cfg.MaxKillTimeout,
		Caps:           r.cfg.Caps,
		Log:            r.cfg.Log,
	})
	return tr
}

// SaveTask implements taskrunner.Owner.
func (r *Runner) SaveTask(task string, rec *localstate.Task) error {
	return r.cfg.Store.PutTask(r.ID(), task, rec)
}

// TaskChanged implements taskrunner.Owner: it wakes the runner and tells the alloc's own owner.
func (r *Runner) TaskChanged() {
	r.wake.Notify()
	r.cfg.Owner.AllocChanged(r.ID())
}

// ID of the alloc.
func (r *Runner) ID() ids.Alloc { return r.cfg.Record.Bundle.Alloc.ID }

// Run runs the alloc to its end, or until ctx ends; then its processes go on and a later agent run adopts them.
func (r *Runner) Run(ctx context.Context) error {
	if r.Released() {
		return nil
	}
	g, gctx := lifecycle.NewGroup(ctx)
	if !r.cfg.Restored {
		for _, n := range r.order {
			r.tasks[n].Emit(&alloc.TaskEvent{Type: alloc.EventReceived, DisplayMessage: "Task received by client"})
		}
	}
	r.hold()
	if r.cfg.Restored { // a task that ended because it was told to is not judged as if it had not been
		f, _ := r.facts(time.Now())
		r.giveKills(alloc.NextAlloc(f), f)
	}
	for _, n := range r.order {
		r.launch(gctx, g, n)
	}
	pctx, stopPrerun := context.WithCancel(gctx)
	prerunDone := make(chan struct{})
	g.Go("hooks before the first task", func() error {
		defer close(prerunDone)
		r.prerun(pctx)
		return nil
	})
	g.Go("alloc", func() error {
		defer g.Stop()
		ended := r.direct(gctx, g)
		stopPrerun()
		<-prerunDone
		if ended {
			r.postrun(gctx)
		}
		return nil
	})
	return g.Wait()
}

func (r *Runner) launch(ctx context.Context, g *lifecycle.Group, name string) {
	tr := r.tasks[name]
	g.Go("task "+name, lifecycle.Isolated("task "+name, func() error { return tr.Run(ctx) }, func(err error) {
		r.cfg.Log.Error("a task runner failed", logkey.Task, name, logkey.Error, err)
	}))
}

// direct gives the tasks their orders until all are dead; false when ctx ended before.
func (r *Runner) direct(ctx context.Context, g *lifecycle.Group) (ended bool) {
	for ctx.Err() == nil {
		changed := r.wake.C()
		if f, _ := r.facts(time.Now()); r.begins(f) {
			continue
		}
		o, next := r.give()
		if o.Done {
			return true
		}
		if len(o.Kill) > 0 {
			continue
		}
		r.rest(ctx, g, changed, next)
	}
	return false
}

// give gives the tasks the orders that follow from how they are.
func (r *Runner) give() (o alloc.AllocOrders, next time.Time) {
	r.turns.Lock()
	defer r.turns.Unlock()
	f, next := r.facts(time.Now())
	o = alloc.NextAlloc(f)
	r.giveKills(o, f)
	for _, n := range o.Restart {
		r.tasks[n].EndRound()
	}
	for _, n := range o.Start {
		r.tasks[n].Open()
	}
	return o, next
}

func (r *Runner) rest(ctx context.Context, g *lifecycle.Group, changed <-chan struct{}, next time.Time) {
	var alarm <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-alarm:
	case name := <-r.turns.revived:
		r.launch(ctx, g, name)
	case <-r.updated:
		g.Go("update", func() error {
			r.rehook(ctx)
			b := r.Bundle()
			for _, n := range r.order {
				r.tasks[n].Update(ctx, b)
			}
			return nil
		})
	}
}

// facts are what the alloc's flow decides on; next says when they change by time alone.
func (r *Runner) facts(now time.Time) (f alloc.AllocFacts, next time.Time) {
	r.mu.Lock()
	f = alloc.AllocFacts{
		Prepared: r.hooks.done,
		Refused:  r.rec.Refused != "",
		Force:    r.stop.force,
		Held:     r.rec.Orphan != nil,
	}
	if r.stopping() {
		if r.stop.at.IsZero() {
			r.stop.at = now
			if delay := r.group().ShutdownDelay; delay > 0 && !r.rec.Bundle.Alloc.NoShutdownDelay {
				r.stop.at = now.Add(delay)
			}
		}
		if f.Stop = !now.Before(r.stop.at); !f.Stop {
			next = r.stop.at
		}
	}
	if most := r.group().MaxRunDuration; most != nil && !r.rec.Began.IsZero() {
		over := r.rec.Began.Add(*most)
		if f.Overdue = !now.Before(over); !f.Overdue && (next.IsZero() || over.Before(next)) {
			next = over
		}
	}
	r.mu.Unlock()
	for _, n := range r.order {
		f.Tasks = append(f.Tasks, r.tasks[n].View())
	}
	return f, r.unreached(now, next)
}

// unreached stops the alloc where its job says so, once the servers have not answered for so long. Next is when that,
// or what else changes by time alone, is looked at again.
func (r *Runner) unreached(now, next time.Time) time.Time {
	r.mu.Lock()
	within, stops := r.group().StopsOnClient()
	stops = stops && r.cfg.Contact != nil && !r.stopping()
	r.mu.Unlock()
	if !stops {
		return next
	}
	at := r.cfg.Contact().Add(within)
	if !now.Before(at) {
		_ = r.Stop(fmt.Sprintf("the servers have not answered for %s, as long as stop_on_client_after allows", within),
			false) // said by update; it is looked at again
		return next
	}
	if next.IsZero() || at.Before(next) {
		return at
	}
	return next
}

// begins writes down when the first task started, where the alloc may not run for ever: that time goes on while no
// agent runs. What cannot be written is counted from now on in memory.
func (r *Runner) begins(f alloc.AllocFacts) bool {
	started := slices.ContainsFunc(f.Tasks, func(t alloc.TaskView) bool { return t.Started })
	r.mu.Lock()
	begins := started && r.group().MaxRunDuration != nil && r.rec.Began.IsZero()
	r.mu.Unlock()
	if begins {
		_ = r.update(func(rec *localstate.Alloc) { rec.Began = time.Now() }) // said by update
	}
	return begins
}

// Stopping reports whether the servers or the agent want the alloc gone.
func (r *Runner) Stopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping()
}

// stopping reports whether the servers or the agent want the alloc gone. The caller holds the lock.
func (r *Runner) stopping() bool { return r.rec.Bundle.Alloc.ServerTerminal() || r.rec.Stopped != "" }

func (r *Runner) group() *job.TaskGroup { return r.rec.Bundle.Job.Group(r.rec.Bundle.Alloc.TaskGroup) }

// update changes the record, writes it down and tells about it.
func (r *Runner) update(fn func(*localstate.Alloc)) error {
	err := r.changeAndSave(fn)
	if err != nil {
		r.cfg.Log.Error("an allocation's state could not be written", logkey.Error, err)
	}
	r.TaskChanged()
	return err
}

func (r *Runner) changeAndSave(fn func(*localstate.Alloc)) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	fn(&r.rec)
	rec := r.rec
	r.mu.Unlock()
	return r.cfg.Store.PutAlloc(&rec)
}
