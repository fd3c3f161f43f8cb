package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/allocdir"
	"berth/internal/client/allochooks"
	"berth/internal/client/allocrunner"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// allocs owns the runners of this node's allocs, from the first word of the servers until nothing is left of them.
type allocs struct {
	c       *Client
	loaded  *localstate.Loaded
	started chan *allocrunner.Runner
	leaving *reconcile.Loop[ids.Alloc] // allocs that may have to be destroyed
	changed lifecycle.Signal

	mu       sync.Mutex
	byID     map[ids.Alloc]*allocrunner.Runner
	damaged  map[ids.Alloc]error
	gone     map[ids.Alloc]bool // the servers don't know it any more; not confirmed by id yet
	stopping bool
	restored bool // the runners of restored allocs have been made
}

func newAllocs(c *Client, loaded *localstate.Loaded) *allocs {
	a := &allocs{c: c, loaded: loaded, started: make(chan *allocrunner.Runner, 1), byID: map[ids.Alloc]*allocrunner.Runner{},
		damaged: loaded.Damaged, gone: map[ids.Alloc]bool{}}
	a.leaving = reconcile.New(reconcile.Config{Name: "remove allocations", Parallel: 8, Log: c.log}, a.leave)
	for id, err := range loaded.Damaged {
		c.log.Error("an allocation's record is damaged", logkey.Alloc, id, logkey.Error, err)
	}
	return a
}

// restore makes the runners of what an earlier life of the agent left. It comes before the first word of the servers.
func (a *allocs) restore() {
	for _, id := range slices.Sorted(maps.Keys(a.loaded.Allocs)) {
		if _, err := a.make(a.loaded.Allocs[id], a.loaded.Tasks[id], true); err != nil {
			a.c.log.Error("an allocation can't be restored", logkey.Alloc, id, logkey.Error, err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restored = true
}

// recorded lists the allocs that have a record, readable or not.
func (a *allocs) recorded() []ids.Alloc {
	return slices.AppendSeq(slices.Collect(maps.Keys(a.loaded.Allocs)), maps.Keys(a.loaded.Damaged))
}

// run runs what was restored and whatever the servers give.
func (a *allocs) run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	restored := a.runners()
	g.Go("remove", func() error { return a.leaving.Run(gctx) })
	g.Go("run", func() error {
		for _, r := range restored {
			a.launch(gctx, g, r)
		}
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

func (a *allocs) launch(ctx context.Context, g *lifecycle.Group, r *allocrunner.Runner) {
	g.Go("alloc "+ids.Short(r.ID()), lifecycle.Isolated("alloc "+ids.Short(r.ID()), func() error { return r.Run(ctx) }, func(err error) {
		a.c.log.Error("an allocation's runner failed", logkey.Alloc, r.ID(), logkey.Error, err)
	}))
}

// make makes the runner of an alloc. One that can't be run (its record makes no sense) is kept as damaged.
func (a *allocs) make(rec *localstate.Alloc, tasks map[string]*localstate.Task, restored bool) (*allocrunner.Runner, error) {
	id := rec.Bundle.Alloc.ID
	dir := allocdir.New(a.c.AllocDir(), id)
	alHooks := append([]hook.Hook{&allochooks.Dir{Dir: dir}}, a.c.parts.AllocHooks...)
	taskHooks := append([]hook.Hook{&taskhooks.Dir{Dir: dir}}, a.c.parts.TaskHooks...)
	taskHooks = append(taskHooks, &taskhooks.Templates{})
	r, err := allocrunner.New(allocrunner.Config{Record: rec, Tasks: tasks, Restored: restored, Dir: dir, Store: a.c.store,
		Node: a.c.host.node, Region: a.c.cfg.Region, Drivers: a.c.drivers, AllocHooks: alHooks, TaskHooks: taskHooks,
		EndProcesses: a.c.cfg.EndProcesses, StorageTimeout: a.c.cfg.StorageTimeout, MaxKillTimeout: a.c.cfg.MaxKillTimeout, Changed: a.runnerChanged, Log: a.c.log})
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

func (a *allocs) runnerChanged(id ids.Alloc) {
	a.c.push.mark(id)
	a.changed.Notify()
	a.mu.Lock()
	leaving := a.gone[id]
	a.mu.Unlock()
	if leaving {
		a.leaving.Mark(id)
	}
}

func (a *allocs) runner(id ids.Alloc) *allocrunner.Runner {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byID[id]
}

// find returns the runner of an alloc or says that it is not here.
func (a *allocs) find(id ids.Alloc) (*allocrunner.Runner, error) {
	if r := a.runner(id); r != nil {
		return r, nil
	}
	return nil, fault.New(fault.NotFound, "use", fmt.Sprintf("allocation %q", id), "it is not on this node")
}

func (a *allocs) runners() []*allocrunner.Runner {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.Collect(maps.Values(a.byID))
	slices.SortFunc(out, func(x, y *allocrunner.Runner) int { return strings.Compare(string(x.ID()), string(y.ID())) })
	return out
}

func (a *allocs) known(id ids.Alloc) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byID[id] != nil || a.damaged[id] != nil || a.loaded.Allocs[id] != nil && !a.restored
}

// apply acts on a set of the servers: the records are written together with its index, then the runners hear of it.
func (a *allocs) apply(ctx context.Context, set *wire.AllocSet, seen localstate.Seen) error {
	var fresh []alloc.Bundle
	var records []*localstate.Alloc
	var done []func(bool)
	named := map[ids.Alloc]bool{}
	for _, b := range set.Bundles {
		if b.Alloc == nil || b.Job == nil {
			a.c.log.Error("the servers sent an allocation without its job; it is left alone")
			continue
		}
		id := b.Alloc.ID
		if named[id] {
			continue
		}
		named[id] = true
		switch r := a.runner(id); {
		case r == nil && a.wanted(b.Alloc):
			fresh = append(fresh, b)
			records = append(records, newRecord(b))
		case r != nil && b.Alloc.AllocModifyIndex != r.Bundle().Alloc.AllocModifyIndex:
			rec, d := r.Update(b)
			records, done = append(records, rec), append(done, d)
		}
	}
	err := a.c.store.PutSeen(seen, records)
	for _, d := range done {
		d(err == nil)
	}
	if err != nil {
		return err
	}
	for _, b := range fresh {
		if err := a.begin(ctx, b); err != nil {
			return err
		}
	}
	a.missing(set, named)
	return nil
}

// missing marks the allocs that the set says, or leaves out, as gone: each is confirmed by id before anything of it ends.
func (a *allocs) missing(set *wire.AllocSet, named map[ids.Alloc]bool) {
	out := slices.Clone(set.Gone)
	if set.Full {
		for _, r := range a.runners() {
			if !named[r.ID()] {
				out = append(out, r.ID())
			}
		}
	}
	a.mu.Lock()
	for _, id := range out {
		a.gone[id] = true
	}
	a.mu.Unlock()
	for _, id := range out {
		a.leaving.Mark(id)
	}
}

// wanted reports whether an alloc that is not here is taken up. One that has ended, or whose record is damaged, is not;
// one that is to stop is, because its end has to be said by this node.
func (a *allocs) wanted(al *alloc.Alloc) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !al.ClientTerminal() && a.damaged[al.ID] == nil && !a.stopping
}

func newRecord(b alloc.Bundle) *localstate.Alloc {
	return &localstate.Alloc{Bundle: b, Begun: now()}
}

func (a *allocs) begin(ctx context.Context, b alloc.Bundle) error {
	r, err := a.make(newRecord(b), nil, false)
	if err != nil {
		a.c.log.Error("an allocation can't be run", logkey.Alloc, b.Alloc.ID, logkey.Error, err)
		return nil
	}
	select {
	case a.started <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave removes an alloc that the servers don't know any more: confirmed by id, stopped, let go, then its directory, then
// its record.
func (a *allocs) leave(ctx context.Context, id ids.Alloc) (reconcile.Result, error) {
	r := a.runner(id)
	if r == nil {
		a.dropMark(id)
		return reconcile.Done(), nil
	}
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := wire.NodeAllocsKnown.Call(cctx, a.c.conn, &wire.NodeAllocsKnownRequest{NodeIdentity: a.c.Identity(), Allocs: []ids.Alloc{id}})
	if err != nil {
		return reconcile.Done(), err
	}
	if !slices.Contains(reply.Unknown, id) {
		a.dropMark(id)
		return reconcile.Done(), nil
	}
	if !r.Released() {
		// Its runner marks the key again when it has let go.
		return reconcile.Done(), r.Stop("The servers no longer know the allocation", true)
	}
	return reconcile.Done(), a.destroy(id)
}

func (a *allocs) dropMark(id ids.Alloc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.gone, id)
}

// destroy removes what is left of an alloc that has ended: its directory, then its record.
func (a *allocs) destroy(id ids.Alloc) error {
	if err := allocdir.New(a.c.AllocDir(), id).Destroy(); err != nil {
		return err
	}
	if err := a.c.store.Forget(id); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.byID, id)
	delete(a.gone, id)
	a.mu.Unlock()
	a.c.push.forget(id)
	a.changed.Notify()
	return nil
}

// collect removes the directories of allocs that have ended and whose end the servers know. An empty id means all.
func (a *allocs) collect(id ids.Alloc) error {
	var failed []error
	for _, r := range a.runners() {
		if id != "" && r.ID() != id || !r.Released() || !a.c.push.acknowledged(r.ID()) {
			continue
		}
		failed = append(failed, a.destroy(r.ID()))
	}
	return errors.Join(failed...)
}

// letGoPause is how long a stopping agent lets storage plugins undo what allocs without processes still have.
const letGoPause = 10 * time.Second

// stopAll ends every alloc and waits until all have let go and the servers were told. Plugins come last, because the
// others need them to let go of volumes; one that does not undo its part in time is ended all the same.
func (a *allocs) stopAll(ctx context.Context) error {
	a.mu.Lock()
	a.stopping = true
	a.mu.Unlock()
	told := map[ids.Alloc]bool{}
	enough := time.NewTimer(letGoPause)
	defer enough.Stop()
	for stuck := false; ; {
		changed := a.changed.C()
		users, plugins := a.unreleased()
		if len(users) == 0 || stuck {
			users = append(users, plugins...)
		}
		left := false
		for _, r := range users {
			if !told[r.ID()] { // one that was being taken up when the agent began to stop appears later
				told[r.ID()] = true
				if err := r.Stop("The agent stops", true); err != nil {
					return err
				}
			}
			gone, _ := r.ProcessesGone()
			left = left || !gone
		}
		if len(users) == 0 || stuck && !left && len(plugins) == 0 {
			a.c.push.drain(ctx)
			return notLetGo(users)
		}
		select {
		case <-ctx.Done():
			return notLetGo(users)
		case <-changed:
		case <-enough.C:
			if stuck = !left; left {
				enough.Reset(letGoPause)
			}
		}
	}
}

// unreleased returns the allocs that have not let go: those that use the node's storage plugins, and the plugins.
func (a *allocs) unreleased() (users, plugins []*allocrunner.Runner) {
	for _, r := range a.runners() {
		switch b := r.Bundle(); {
		case r.Released():
		case runsPlugin(b):
			plugins = append(plugins, r)
		default:
			users = append(users, r)
		}
	}
	return users, plugins
}

func runsPlugin(b alloc.Bundle) bool {
	return slices.ContainsFunc(b.Job.TaskGroups, func(g *job.TaskGroup) bool {
		return g.Name == b.Alloc.TaskGroup && slices.ContainsFunc(g.Tasks, func(t *job.Task) bool { return t.CSIPluginConfig != nil })
	})
}

func notLetGo(left []*allocrunner.Runner) error {
	if len(left) == 0 {
		return nil
	}
	var names []string
	for _, r := range left {
		names = append(names, ids.Short(r.ID()))
	}
	return fault.WithHint(fault.New(fault.Timeout, "stop", "the node's tasks", fmt.Sprintf("allocations %s have not let go of what they use", strings.Join(names, ", "))),
		"the next start with the same data_dir goes on with it")
}
