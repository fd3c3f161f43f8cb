package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// work brings one volume on: next step, intent on disk, call, verification, result. The result of a step and the intent
// of the next share a transaction. Pauses after failures are kept per step, so that one that fails does not hold up
// others.
func (k *Keeper) work(ctx context.Context, key volume.StagingKey) (reconcile.Result, error) {
	defer k.changed.Notify()
	for ctx.Err() == nil {
		d := k.plan(key)
		if !d.ok {
			err := k.settle(key)
			if d.wait < noRetry/2 {
				return reconcile.Again(d.wait, "a step failed"), err
			}
			return reconcile.Done(), err
		}
		conn, err := k.cfg.Plugins.Use(key.Plugin, plugin.RoleNode)
		if err != nil {
			// Not ready is waiting: the instance's change marks this key again.
			k.say(key, err.Error())
			return reconcile.Done(), k.settle(key)
		}
		err = k.step(ctx, key, d, conn)
		conn.Release()
		if err != nil && !k.failed(key, d.step, k.heldBy(ctx, key, d.step, err)) {
			return reconcile.Done(), err
		}
		k.changed.Notify()
	}
	return reconcile.Done(), k.settle(key)
}

// decision is the next step, of one version of the entry.
type decision struct {
	step entry.Step
	ok   bool          // there is one
	wait time.Duration // without one: until one is due
	at   version
}

// plan reads the facts and picks the step. Both belong to one version of the entry: facts read before a want was
// withdrawn know nothing of the processes that it started.
func (k *Keeper) plan(key volume.StagingKey) decision {
	for {
		f, why, at := k.gates(key)
		if d := k.pick(key, f, why); d.at == at {
			return d
		}
	}
}

// pick picks the step that the facts allow for the entry as it is now.
func (k *Keeper) pick(key volume.StagingKey, f entry.Facts, left map[ids.Alloc]string) decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return decision{wait: noRetry}
	}
	d := decision{wait: noRetry, at: vs.version()}
	shown := vs.shown()
	var wait entry.Wait
	vs.status.steps, wait = entry.Next(vs.entry, vs.facts(f))
	if wait != entry.WaitRefused {
		vs.lastErr = nil // an error belongs to a step, which may be none to be made any more
	}
	d.step, d.ok, d.wait = vs.pick(vs.status.steps, time.Now())
	if d.ok {
		return d
	}
	status := string(wait)
	if why := left[entry.Awaited(vs.entry, f)]; wait == entry.WaitProcesses && why != "" {
		status += ": " + why
	}
	vs.says(status, wait != entry.WaitNothing && wait != entry.WaitServers)
	if vs.shown() != shown {
		vs.on(entry.Described)
	}
	return d
}

// gates asks the gates without holding the lock: they have locks of their own. left says of each alloc why its
// processes are not proven gone.
func (k *Keeper) gates(key volume.StagingKey) (f entry.Facts, left map[ids.Alloc]string, at version) {
	k.mu.Lock()
	var allocs []ids.Alloc
	vs := k.vols[key]
	if vs != nil {
		allocs = vs.entry.Allocs()
	}
	at = vs.version()
	unknown := k.unknownTarget(key.Plugin)
	k.mu.Unlock()
	f = entry.Facts{
		Unknown: unknown,
		Armed:   k.cfg.Armed.Armed(),
		Gone:    map[ids.Alloc]bool{},
		Idle:    map[ids.Alloc]bool{},
		Orphans: map[ids.Alloc]bool{},
	}
	left = map[ids.Alloc]string{}
	for _, id := range allocs {
		f.Gone[id], left[id] = k.cfg.Processes.ProcessesGone(id)
		f.Idle[id] = k.cfg.Processes.ProcessesIdle(id)
		f.Orphans[id] = k.cfg.Allocs.Orphaned(id)
	}
	return f, left, at
}

// settle drops publications that are over, and does with the entry what its record demands.
func (k *Keeper) settle(key volume.StagingKey) error {
	for {
		k.mu.Lock()
		vs := k.vols[key]
		if vs == nil {
			k.mu.Unlock()
			return nil
		}
		vs.dropOver()
		f := vs.record.Fate(vs.entry.Quiet())
		if f == entry.Forget {
			delete(k.vols, key)
		}
		k.mu.Unlock()
		var err error
		switch f {
		case entry.Keep, entry.Forget:
			return nil
		case entry.Save:
			err = k.save(key)
		case entry.Erase:
			err = k.erase(key)
		}
		if err != nil {
			return err
		}
	}
}

// step makes one call, unless the entry has changed since the step was picked. The intent is durable before it; what it
// came to is in memory after it.
func (k *Keeper) step(ctx context.Context, key volume.StagingKey, d decision, conn *instance.Connection) error {
	alive := k.alive(key, conn)
	k.mu.Lock()
	vs, s := k.vols[key], d.step
	if vs.version() != d.at {
		k.mu.Unlock()
		return nil
	}
	if err := vs.prepare(s, conn); err != nil {
		k.mu.Unlock()
		return err
	}
	staging := vs.entry.Staging.Presence
	before := entry.Intend(vs.entry, s)
	if s.Verb == entry.Unpublish && vs.entry.Staging.Presence != staging {
		vs.unstageIntended = true
	}
	written := false // the intent is on disk already; the result before it waits for the one after it
	switch {
	case s.Verb == entry.Unstage && vs.unstageIntended:
		before = volume.Present
		vs.unstageIntended = false
		written = true
	case s.Verb != entry.Expand:
		vs.touch()
	}
	vs.flight.verb, vs.flight.since = s.Verb, time.Now()
	vs.asks(runOf(conn), alive)
	vs.says(vs.progress(key.Plugin, nil), false)
	vs.lastErr = nil
	call, write := k.callOf(vs, s, conn), vs.record.Journal != entry.Current && !written
	k.mu.Unlock()
	if write {
		if err := k.save(key); err != nil {
			k.takeBack(key, s, before)
			return err
		}
	}
	vs.call.Begin()
	err := k.stillServed(s, call(ctx), alive)
	k.answered(key, runOf(conn), err)
	if rest := k.unmountOwn(ctx, key, s, err); rest != nil {
		err = rest
	}
	if s.Verb == entry.Unstage && (err == nil || csi.RetryOf(err) == volume.RetryVerify) {
		err = cmp.Or(k.cfg.Holding.Absent(ctx, k.Snapshot(key)), err)
	}
	vs.call.End()
	return k.finish(key, s, before, err)
}

// takeBack takes an intent back that never reached the disk and whose call was therefore not made.
func (k *Keeper) takeBack(key volume.StagingKey, s entry.Step, before volume.Presence) {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return
	}
	vs.flight.verb = ""
	vs.entry.Unanswered = slices.Clone(vs.flight.late)
	if p := vs.entry.PresenceOf(s); p != nil {
		*p = before
	}
	if s.Verb == entry.Unpublish && vs.unstageIntended {
		vs.entry.Staging.Presence, vs.unstageIntended = volume.Present, false
	}
}

// finish verifies and writes down what the call came to.
func (k *Keeper) finish(key volume.StagingKey, s entry.Step, before volume.Presence, err error) error {
	o, found, err := k.verifyStep(key, s, err)
	if o == entry.Refused && s.Making() && before == volume.Absent && !k.removeUnmade(key, s) {
		o = entry.Unknown
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs != nil {
		vs.flight.verb = ""
	}
	if vs == nil || vs.entry.PresenceOf(s) == nil && s.Verb != entry.Expand {
		return err
	}
	if now := vs.entry.PresenceOf(s); now != nil && s.Making() && *now == volume.Lost && o == entry.Worked {
		o = entry.Other // while the call was under way, a want with other arguments came
	}
	entry.Conclude(vs.entry, s, before, o)
	vs.touch()
	switch {
	case o == entry.Worked:
		vs.worked(s, found)
		k.cfg.Holding.Forget(key)
		return nil
	case csi.RetryOf(err) == volume.RetryNever || s.Verb == entry.Expand && csi.RetryOf(err) == volume.RetryOffline:
		vs.refuse(s, err)
	}
	return err
}

// worked writes down what success adds beyond presence, and forgets a publication that is over.
func (vs *volumeState) worked(s entry.Step, found evidence.Observed) {
	delete(vs.retries, s)
	vs.lastErr = nil
	e := vs.entry
	switch s.Verb {
	case entry.Stage:
		e.Staging.Mounts, e.Staging.Own = found.Mounts, found.Own
		e.Staging.Device = found.Block
		e.Undone = nil
	case entry.Publish:
		p := e.Pubs[s.Alloc]
		p.Device, p.SeenReadOnly = found.Device, found.ReadOnly
		p.Own = found.Own
		if found.Block != (entry.Device{}) {
			e.Staging.Device = found.Block
		}
	case entry.Expand:
		e.Staging.ExpandedTo = e.Staging.ExpandTo
	case entry.Unpublish:
		vs.restAfterUndo(entry.Step{Verb: entry.Publish, Alloc: s.Alloc})
		vs.dropOver()
	case entry.Unstage:
		vs.restAfterUndo(entry.Step{Verb: entry.Stage})
		vs.growsAnew() // what could not grow as it was used is used otherwise
		e.Unstaged()
		vs.dropOver()
	}
}

// heldBy adds to the failure of a step who keeps it from its end.
func (k *Keeper) heldBy(ctx context.Context, key volume.StagingKey, s entry.Step, err error) error {
	k.mu.Lock()
	before := 0
	if vs := k.vols[key]; vs != nil {
		before = vs.retries[s].failures
	}
	k.mu.Unlock()
	return k.cfg.Holding.HeldBy(ctx, k.Snapshot(key), s, before, err)
}

// restAfterUndo lets a step that had to be undone rest from the end of the undo on. It keeps its count: the success of
// the undo is none of the step itself, and what goes round would else go round without a pause.
func (vs *volumeState) restAfterUndo(s entry.Step) {
	r, failed := vs.retries[s]
	if !failed || csi.RetryOf(r.err) != volume.RetryAfterUndo {
		return
	}
	r.next = time.Now().Add(pauseAfter(r.failures, r.err))
	vs.retries[s] = r
}

// refuse remembers a final no, so that the call is not made again with equal arguments.
func (vs *volumeState) refuse(s entry.Step, err error) {
	switch s.Verb {
	case entry.Publish:
		vs.refused[s.Alloc] = err
	case entry.Stage:
		vs.stageRefused = err
	case entry.Expand:
		vs.expandRefused = err
	}
}

// failed files when the step is tried again. It reports whether the pass may go on with other steps.
func (k *Keeper) failed(key volume.StagingKey, s entry.Step, err error) (goOn bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return false
	}
	r := vs.retries[s]
	r.failures++
	r.err = err
	r.next = time.Now().Add(pauseAfter(r.failures, err))
	vs.retries[s] = r
	vs.lastErr = err
	vs.says("", false)
	vs.on(entry.Described)
	log := k.cfg.Log.With(logkey.Plugin, key.Plugin, logkey.Volume, key.ExternalID, logkey.Op, s.Verb, logkey.Attempt,
		r.failures)
	if fault.Has(err, fault.NotReady) || fault.Has(err, fault.Canceled) {
		log.Debug("a volume step waits", logkey.Error, err)
	} else {
		log.Warn("a volume step did not succeed", logkey.Error, err)
	}
	return true
}

// pauseAfter is how long a step rests after a number of failures in a row.
func pauseAfter(failures int, err error) time.Duration {
	switch csi.RetryOf(err) {
	case volume.RetryNever:
		return noRetry // a new connection to the plugin, or another want, ends it
	case volume.RetrySlow:
		return slowRetry
	case volume.RetryAfterUndo, // the undo is another step: it does not rest
		volume.RetryBackoff, volume.RetryVerify, volume.RetrySecrets, volume.RetryAborted, volume.RetryOtherPlace,
		volume.RetryOffline, volume.RetryRestartListing:
	}
	return stepPause.Jittered(failures)
}

func (k *Keeper) say(key volume.StagingKey, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return
	}
	if vs.status.text != why {
		vs.lastErr = nil
		vs.on(entry.Described)
	}
	vs.status = status{text: why, obstructed: true} // no step is tried before the plugin is there
}
