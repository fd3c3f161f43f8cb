package node

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
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
		step, ok, pause := k.plan(key)
		if !ok {
			err := k.settle(key)
			if pause < noRetry/2 {
				return reconcile.Again(pause, "a step failed"), err
			}
			return reconcile.Done(), err
		}
		conn, err := k.cfg.Plugins.Use(key.Plugin, plugin.RoleNode)
		if err != nil {
			// Not ready is waiting: the instance's change marks this key again.
			k.say(key, err.Error())
			return reconcile.Done(), k.settle(key)
		}
		err = k.step(ctx, key, step, conn)
		conn.Release()
		if err != nil && !k.failed(key, step, err) {
			return reconcile.Done(), err
		}
		k.changed.Notify()
	}
	return reconcile.Done(), k.settle(key)
}

// plan reads the facts and picks the step.
func (k *Keeper) plan(key volume.StagingKey) (step Step, ok bool, pause time.Duration) {
	f, why := k.gates(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return Step{}, false, noRetry
	}
	steps, wait := Next(vs.entry, vs.facts(f))
	if len(steps) > 0 {
		return vs.pick(steps, time.Now())
	}
	status := string(wait)
	if wait == WaitProcesses && why != "" {
		status += ": " + why
	}
	if vs.status != status || vs.lastErr != nil && wait == WaitNothing {
		vs.status = status
		vs.on(described)
	}
	if wait == WaitNothing {
		vs.lastErr = nil
	}
	return Step{}, false, noRetry
}

// gates asks the gates without holding the lock: they have locks of their own.
func (k *Keeper) gates(key volume.StagingKey) (f Facts, why string) {
	k.mu.Lock()
	var allocs []ids.Alloc
	if vs := k.vols[key]; vs != nil {
		allocs = vs.entry.allocs()
	}
	k.mu.Unlock()
	f = Facts{
		Armed:   k.cfg.Armed.Armed(),
		Gone:    map[ids.Alloc]bool{},
		Idle:    map[ids.Alloc]bool{},
		Orphans: map[ids.Alloc]bool{},
	}
	for _, id := range allocs {
		gone, w := k.cfg.Processes.ProcessesGone(id)
		f.Gone[id] = gone
		f.Idle[id] = k.cfg.Processes.ProcessesIdle(id)
		f.Orphans[id] = k.cfg.Allocs.Orphaned(id)
		if !gone && w != "" {
			why = w
		}
	}
	return f, why
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
		f := vs.record.fate(vs.entry.quiet())
		if f == forget {
			delete(k.vols, key)
		}
		k.mu.Unlock()
		var err error
		switch f {
		case keep, forget:
			return nil
		case save:
			err = k.save(key)
		case erase:
			err = k.erase(key)
		}
		if err != nil {
			return err
		}
	}
}

// step makes one call. The intent is durable before it; what it came to is in memory after it.
func (k *Keeper) step(ctx context.Context, key volume.StagingKey, s Step, conn *instance.Connection) error {
	k.mu.Lock()
	vs := k.vols[key]
	if vs == nil {
		k.mu.Unlock()
		return nil
	}
	if err := vs.prepare(s, conn); err != nil {
		k.mu.Unlock()
		return err
	}
	staging := vs.entry.Staging.Presence
	before := intend(vs.entry, s)
	if s.Verb == Unpublish && vs.entry.Staging.Presence != staging {
		vs.unstageIntended = true
	}
	written := false // the intent is on disk already; the result before it waits for the one after it
	switch {
	case s.Verb == Unstage && vs.unstageIntended:
		before = volume.Present
		vs.unstageIntended = false
		written = true
	case s.Verb != Expand:
		vs.touch()
	}
	vs.underWay = s.Verb
	vs.status, vs.lastErr = vs.progress(nil), nil
	call, write := k.callOf(vs, s, conn), vs.record.disk != current && !written
	k.mu.Unlock()
	if write {
		if err := k.save(key); err != nil {
			k.takeBack(key, s, before)
			return err
		}
	}
	vs.call.Lock()
	err := call(ctx)
	vs.call.Unlock()
	return k.finish(key, s, before, err)
}

// takeBack takes an intent back that never reached the disk and whose call was therefore not made.
func (k *Keeper) takeBack(key volume.StagingKey, s Step, before volume.Presence) {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return
	}
	vs.underWay = ""
	if p := vs.entry.presenceOf(s); p != nil {
		*p = before
	}
	if s.Verb == Unpublish && vs.unstageIntended {
		vs.entry.Staging.Presence, vs.unstageIntended = volume.Present, false
	}
}

// finish verifies and writes down what the call came to.
func (k *Keeper) finish(key volume.StagingKey, s Step, before volume.Presence, err error) error {
	o, found, err := k.verifyStep(key, s, err)
	if o == refused && s.making() && before == volume.Absent && !k.removeUnmade(key, s) {
		o = unknown
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs != nil {
		vs.underWay = ""
	}
	if vs == nil || vs.entry.presenceOf(s) == nil && s.Verb != Expand {
		return err
	}
	if now := vs.entry.presenceOf(s); now != nil && s.making() && *now == volume.Lost && o == worked {
		o = other // while the call was under way, a want with other arguments came
	}
	conclude(vs.entry, s, before, o)
	vs.touch()
	switch {
	case o == worked:
		vs.worked(s, found)
		return nil
	case csi.RetryOf(err) == volume.RetryNever || s.Verb == Expand && csi.RetryOf(err) == volume.RetryOffline:
		vs.refuse(s, err)
	}
	return err
}

// worked writes down what success adds beyond presence, and forgets a publication that is over.
func (vs *volumeState) worked(s Step, found observed) {
	delete(vs.retries, s)
	vs.lastErr = nil
	e := vs.entry
	switch s.Verb {
	case Stage:
		e.Staging.Mounts = found.mounts
	case Publish:
		p := e.Pubs[s.Alloc]
		p.Device, p.SeenReadOnly = found.device, found.readOnly
	case Expand:
		e.Staging.ExpandedTo = e.Staging.ExpandTo
	case Unpublish:
		vs.restAfterUndo(Step{Verb: Publish, Alloc: s.Alloc})
		vs.dropOver()
	case Unstage:
		vs.restAfterUndo(Step{Verb: Stage})
		// What is to be grown at the next use comes with its grant.
		e.Staging.ExpandTo = 0
		e.Staging.ExpandedTo = 0
		e.Staging.Mounts = nil
		vs.dropOver()
	}
}

// restAfterUndo lets a step that had to be undone rest from the end of the undo on. It keeps its count: the success of
// the undo is none of the step itself, and what goes round would else go round without a pause.
func (vs *volumeState) restAfterUndo(s Step) {
	r, failed := vs.retries[s]
	if !failed || csi.RetryOf(r.err) != volume.RetryAfterUndo {
		return
	}
	r.next = time.Now().Add(pauseAfter(r.failures, r.err))
	vs.retries[s] = r
}

// refuse remembers a final no, so that the call is not made again with equal arguments.
func (vs *volumeState) refuse(s Step, err error) {
	switch s.Verb {
	case Publish:
		vs.refused[s.Alloc] = err
	case Stage:
		vs.stageRefused = err
	case Expand:
		vs.expandRefused = err
	}
}

// failed files when the step is tried again. It reports whether the pass may go on with other steps.
func (k *Keeper) failed(key volume.StagingKey, s Step, err error) (goOn bool) {
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
	vs.lastErr, vs.status = err, ""
	vs.on(described)
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

func (k *Keeper) say(key volume.StagingKey, status string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if vs := k.vols[key]; vs != nil && vs.status != status {
		vs.status, vs.lastErr = status, nil
		vs.on(described)
	}
}
