// Package allocs owns the allocs of a node: their runners, from the first set of the servers that names them until
// nothing is left of them, the reports of how they are, and what is kept of allocs that the servers do not know. Only
// package client and what it is made of import it.
package allocs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/base/render"
	"berth/internal/client/allocdir"
	"berth/internal/client/allochooks"
	"berth/internal/client/allocrunner"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/client/servers"
	"berth/internal/client/shim"
	"berth/internal/client/suspects"
	"berth/internal/client/taskhooks"
	"berth/internal/client/taskrunner"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/port/driver"
	"berth/internal/wire"
)

// Config wires Allocs.
type Config struct {
	Holdings *Holdings
	Store    *localstate.Store
	Link     *servers.Link
	// Shims end what drivers have left of an alloc; nil: drivers launch nothing.
	Shims   *shim.Launcher
	Host    taskrunner.Host
	Region  string
	Drivers allocrunner.Drivers
	// AllocHooks and TaskHooks run in order between those that every alloc has: directories first, templates last.
	AllocHooks []hook.Hook
	TaskHooks  []hook.Hook
	// Inventory rides with the reports of allocs; nil: the node has none.
	Inventory Inventory
	// ReportDelay is how long news that nobody waits for are held back.
	ReportDelay time.Duration
	// ReportPatience is how long an alloc is not reported that is on its way and goes well.
	ReportPatience time.Duration
	// ConfirmRemovals is how long removals of many allocs at once wait until they are confirmed again; 0: 30 s.
	ConfirmRemovals time.Duration
	// Disks is how new allocs are held to their disks.
	Disks                          allocdir.Held
	Sources                        taskhooks.Sources // what templates read of the servers; nil: nothing
	StorageTimeout, MaxKillTimeout time.Duration     // see allocrunner.Config

	Contact func() time.Time // the same

	Caps driver.Caps
	// Guard marks what is begun, and says of which allocs runs of the agent have died; nil: nobody does.
	Guard *suspects.Guard
	Log   *slog.Logger
}

// Allocs runs the allocs of the node.
type Allocs struct {
	*Holdings
	cfg     Config
	log     *slog.Logger
	reports *reporter
	found   []*allocrunner.Runner // what Restore made, for Run
	suspect []*allocrunner.Runner // those of them of which runs of the agent may have died
	started chan *allocrunner.Runner
	leaving *reconcile.Loop[ids.Alloc] // allocs that may have to be destroyed
	// templates renders those of all allocs.
	templates *taskhooks.Templates

	gone     map[ids.Alloc]time.Time // a set of the servers left it out; it is asked about by id, not before that time
	stopping bool

	// notWritten is why what was placed here cannot be begun, as was reported; Apply alone uses it.
	notWritten map[ids.Alloc]string
}

// New returns what runs nothing before Run.
func New(cfg Config) *Allocs {
	if cfg.ConfirmRemovals <= 0 {
		cfg.ConfirmRemovals = confirmIn
	}
	if cfg.Guard == nil {
		cfg.Guard = suspects.New(suspects.Config{Window: -1})
	}
	a := &Allocs{
		Holdings: cfg.Holdings,
		cfg:      cfg,
		log:      cfg.Log,
		reports:  newReporter(cfg),
		started:  make(chan *allocrunner.Runner, 1),
		gone:     map[ids.Alloc]time.Time{},

		templates: &taskhooks.Templates{Renderer: render.NewRenderer(), Sources: cfg.Sources},
	}
	a.leaving = reconcile.New(reconcile.Config{Name: "remove allocations", Parallel: 8, Log: cfg.Log}, a.leave)
	return a
}

// Restore makes the runners of what an earlier run of the agent left. It comes before the first set of the servers; a
// record from before there were marks is as old as what the node has seen.
func (a *Allocs) Restore(seen lineage.Point) {
	if err := a.findUnrecorded(); err != nil {
		a.log.Error("allocations without a record could not be looked for", logkey.Error, err)
	}
	all := slices.Sorted(maps.Keys(a.loaded.Allocs))
	a.markRestored(all)
	for _, id := range all {
		rec := a.loaded.Allocs[id]
		if rec.Received.IsZero() {
			rec.Received = seen
		}
		r, err := a.make(rec, a.loaded.Tasks[id], true)
		if err != nil {
			a.log.Error("an allocation can't be restored", logkey.Alloc, id, logkey.Error, err)
			continue
		}
		a.sort(r)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restored = true
}

// Run runs what was restored and whatever the servers give, each once, and reports how it is. Their first set may have
// come already: what is in the table by now is not only what was restored.
func (a *Allocs) Run(ctx context.Context) error {
	a.show(ctx) // before anything is removed
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("remove", func() error { return a.leaving.Run(gctx) })
	g.Go("report", func() error { return a.reports.run(gctx) })
	g.Go("unrecorded", func() error { return a.watchUnrecorded(gctx) })
	g.Go("guard", func() error { return a.cfg.Guard.Run(gctx) })
	g.Go("run", func() error {
		for _, r := range a.found {
			a.launch(gctx, g, r)
		}
		g.Go("suspects", func() error { return a.launchSuspects(gctx, g) })
		for {
			select {
			case <-gctx.Done():
				return nil
			case r := <-a.started:
				a.launch(gctx, g, r)
			}
		}
	})
	return g.Wait()
}

func (a *Allocs) launch(ctx context.Context, g *lifecycle.Group, r *allocrunner.Runner) {
	name := "alloc " + ids.Short(r.ID())
	g.Go(name, lifecycle.Isolated(name, func() error { return r.Run(ctx) }, func(err error) {
		a.log.Error("an allocation's runner failed", logkey.Alloc, r.ID(), logkey.Error, err)
	}))
}

// make makes the runner of an alloc. One that can't be run (its record makes no sense) is kept as damaged.
func (a *Allocs) make(
	rec *localstate.Alloc, tasks map[string]*localstate.Task, restored bool,
) (*allocrunner.Runner, error) {
	id := rec.Bundle.Alloc.ID
	dir := a.AllocDir(id)
	taskHooks := append([]hook.Hook{&taskhooks.User{}, &taskhooks.Dir{Dir: dir}}, a.cfg.TaskHooks...)
	r, err := newRunner(allocrunner.Config{
		Record:         rec,
		Tasks:          tasks,
		Restored:       restored,
		Dir:            dir,
		Store:          a.cfg.Store,
		Host:           a.cfg.Host,
		Region:         a.cfg.Region,
		Drivers:        a.cfg.Drivers,
		AllocHooks:     append([]hook.Hook{&allochooks.Dir{Dir: dir, Held: a.cfg.Disks}}, a.cfg.AllocHooks...),
		TaskHooks:      append(taskHooks, a.templates),
		Processes:      a.cfg.Shims,
		ParentCgroup:   a.cfg.Shims.Slice(),
		StorageTimeout: a.cfg.StorageTimeout,
		MaxKillTimeout: a.cfg.MaxKillTimeout,
		Caps:           a.cfg.Caps,
		Contact:        a.cfg.Contact,
		Owner:          a,
		Log:            a.log,
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.damaged[id] = err
		return nil, err
	}
	a.byID[id] = r
	a.changed.Notify()
	return r, nil
}

// AllocChanged implements allocrunner.Owner.
func (a *Allocs) AllocChanged(id ids.Alloc) {
	a.reports.mark(id)
	a.changed.Notify()
	r := a.Runner(id)
	if a.leavingNow(id) {
		a.leaving.Mark(id)
	}
	if r != nil && r.Orphan() != nil {
		a.orphaned.Notify()
		if r.Released() {
			a.leaving.Mark(id)
		}
	}
}

// ReportAll has every alloc reported: a new registration begins with the whole truth.
func (a *Allocs) ReportAll() {
	for _, r := range a.Runners() {
		a.reports.markAnew(r.ID())
	}
}

// Apply acts on a set of the servers: the records are written together with its point, then the runners hear of it.
// What the set names, and in a change of a set also what it does not say to be gone, this state of the servers knows:
// it is stamped with the point once in each leadership. What cannot be written down is a *servers.Own.
func (a *Allocs) Apply(ctx context.Context, set *wire.AllocSet) error {
	var fresh []*localstate.Alloc
	var lost []*alloc.Alloc
	var changes []allocrunner.Change
	named, taken := map[ids.Alloc]bool{}, map[ids.Alloc]map[string]*localstate.Task{}
	for _, b := range set.Bundles {
		if b.Alloc == nil || b.Job == nil {
			a.log.Error("the servers sent an allocation without its job; it is left alone")
			continue
		}
		id := b.Alloc.ID
		if named[id] {
			continue
		}
		named[id] = true
		if r := a.Runner(id); r != nil {
			changes = a.renew(changes, r, b, set.At)
			continue
		}
		switch Begin(b.Alloc, set.Restored, a.here(id)) {
		case TakesUp:
			rec, tasks, err := a.takeUp(ctx, b, set.At)
			if err != nil {
				return err
			}
			if rec != nil {
				fresh, taken[id] = append(fresh, rec), tasks
			}
		case NotBegun:
			lost = append(lost, b.Alloc)
		case Begins:
			fresh = append(fresh, &localstate.Alloc{Bundle: b, Received: set.At})
		case Passes:
		}
	}
	if !set.Full {
		for _, r := range a.Runners() {
			if !named[r.ID()] && r.Orphan() == nil && !a.leavingNow(r.ID()) && !slices.Contains(set.Gone, r.ID()) {
				changes = a.stamp(changes, r, set.At)
			}
		}
	}
	a.hear(set)
	if err := a.reportLost(ctx, lost); err != nil {
		return err
	}
	if err := a.write(set, changes, fresh); err != nil {
		return &servers.Own{Err: errors.Join(err, a.sayNotWritten(ctx, fresh, err))}
	}
	a.notWritten = nil
	a.orphaned.Notify()
	for _, rec := range fresh {
		if err := a.begin(ctx, rec, taken[rec.Bundle.Alloc.ID]); err != nil {
			return err
		}
	}
	a.missing(set, named)
	return nil
}

// write writes a set down, and brings it into force for those that run.
func (a *Allocs) write(set *wire.AllocSet, changes []allocrunner.Change, fresh []*localstate.Alloc) error {
	if err := a.suspend(set.Suspended); err != nil {
		return err
	}
	return allocrunner.Commit(changes, func(records []*localstate.Alloc) error {
		return a.cfg.Guard.Begin(idsOf(fresh), func(marks map[ids.Alloc]localstate.Mark) error {
			return a.cfg.Store.PutBegun(set.At, append(records, fresh...), marks)
		})
	})
}

// suspend lets nothing of allocs be started with whose volumes nothing may be begun, and of all others again.
func (a *Allocs) suspend(all []wire.SuspendedAlloc) error {
	why := map[ids.Alloc]string{}
	for _, s := range all {
		why[s.Alloc] = s.Reason
	}
	for _, r := range a.Runners() {
		if err := r.Suspend(why[r.ID()]); err != nil {
			return err
		}
	}
	return nil
}

// renew adds what the servers' state says of an alloc that is here.
func (a *Allocs) renew(
	changes []allocrunner.Change, r *allocrunner.Runner, b alloc.Bundle, at lineage.Point,
) []allocrunner.Change {
	if b.Alloc.ClientStatus == alloc.ClientUnknown {
		// The servers have not heard of it since the node was silent for them, whatever was reported before that.
		a.reports.markAnew(r.ID())
	}
	if b.Alloc.AllocModifyIndex != r.Bundle().Alloc.AllocModifyIndex {
		return append(changes, r.Update(b, at))
	}
	return a.stamp(changes, r, at)
}

// stamp adds that this state of the servers knows an alloc, unless that is written already.
func (a *Allocs) stamp(changes []allocrunner.Change, r *allocrunner.Runner, at lineage.Point) []allocrunner.Change {
	orphan := r.Orphan()
	if was := r.Received(); was.Mark == at.Mark && was.Incarnation == at.Incarnation && orphan == nil {
		return changes
	}
	if orphan != nil {
		a.log.Info("the servers know the allocation again: it is no orphan", logkey.Alloc, r.ID())
	}
	return append(changes, r.Stamp(at))
}

func (a *Allocs) leavingNow(id ids.Alloc) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, leaving := a.gone[id]
	return leaving
}

// here is what the node has of an alloc without a record.
func (a *Allocs) here(id ids.Alloc) Here {
	unknown := a.unknownHere(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	_, unrecorded := a.unrecorded[id]
	return Here{
		Unrecorded: unknown,
		Directory:  unrecorded,
		Damaged:    a.damaged[id] != nil,
		Ended:      a.ended[id],
		Stopping:   a.stopping,
	}
}

// begin runs an alloc that came anew, or with the tasks of one that is taken up.
func (a *Allocs) begin(ctx context.Context, rec *localstate.Alloc, tasks map[string]*localstate.Task) error {
	r, err := a.make(rec, tasks, tasks != nil)
	a.mu.Lock()
	delete(a.unrecorded, rec.Bundle.Alloc.ID)
	a.mu.Unlock()
	if err != nil {
		a.log.Error("an allocation can't be run", logkey.Alloc, rec.Bundle.Alloc.ID, logkey.Error, err)
		return nil
	}
	select {
	case a.started <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// destroy removes what is left of an alloc that has ended: its directory, then its record.
func (a *Allocs) destroy(id ids.Alloc) error {
	if err := a.AllocDir(id).Destroy(); err != nil {
		return err
	}
	if err := a.cfg.Store.Forget(id); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.byID, id)
	delete(a.gone, id)
	a.mu.Unlock()
	a.cfg.Guard.Forget(id)
	a.reports.forget(id)
	a.changed.Notify()
	return nil
}

// Collect removes what is left on the node of an alloc that has ended and whose end the servers know; an empty id means
// all of them.
func (a *Allocs) Collect(id ids.Alloc) error {
	if id != "" && slices.Contains(a.leftovers(), id) {
		return a.collectUnrecorded(id)
	}
	if id != "" {
		r, err := a.Find(id)
		if err != nil {
			return err
		}
		if !r.Released() {
			return fault.WithHint(
				fault.New(fault.Conflict, "collect", fmt.Sprintf("allocation %q", id), "it has not ended"),
				"stop it first")
		}
	}
	var failed []error
	if id == "" {
		failed = append(failed, a.collectUnrecorded(""))
	}
	for _, r := range a.Runners() {
		if id != "" && r.ID() != id || !r.Released() || r.Orphan() == nil && !a.reports.acknowledged(r.ID()) {
			continue
		}
		failed = append(failed, a.destroy(r.ID()))
	}
	return errors.Join(failed...)
}
