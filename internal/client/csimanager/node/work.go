package node

import (
	"context"
	"math/rand/v2"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/csimanager"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// work brings one volume on: next step, intent on disk, call, verification, result. The result of a step and the intent
// of the next share a transaction. Pauses after failures are kept per step, so that one that fails does not hold up others.
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
	l := k.vols[key]
	if l == nil {
		return Step{}, false, noRetry
	}
	steps, wait := Next(l.entry, l.facts(f, k.cfg.Unreported))
	if len(steps) > 0 {
		return l.pick(steps, time.Now())
	}
	status := string(wait)
	if wait == WaitProcesses && why != "" {
		status += ": " + why
	}
	if l.status != status || l.lastErr != nil && wait == WaitNothing {
		l.status, l.reported = status, false
	}
	if wait == WaitNothing {
		l.lastErr = nil
	}
	return Step{}, false, noRetry
}

// gates asks the gates without holding the lock: they have locks of their own.
func (k *Keeper) gates(key volume.StagingKey) (f Facts, why string) {
	k.mu.Lock()
	var allocs []ids.Alloc
	if l := k.vols[key]; l != nil {
		allocs = l.entry.allocs()
	}
	k.mu.Unlock()
	f = Facts{Armed: k.cfg.Armed.Armed(), Gone: map[ids.Alloc]bool{}, Idle: map[ids.Alloc]bool{}}
	idle, canIdle := k.cfg.Processes.(csimanager.IdleGate)
	for _, id := range allocs {
		gone, w := k.cfg.Processes.ProcessesGone(id)
		f.Gone[id] = gone
		f.Idle[id] = canIdle && idle.ProcessesIdle(id)
		if !gone && w != "" {
			why = w
		}
	}
	return f, why
}

// settle saves what is not saved and drops publications that are over.
func (k *Keeper) settle(key volume.StagingKey) error {
	k.mu.Lock()
	l := k.vols[key]
	if l == nil {
		k.mu.Unlock()
		return nil
	}
	l.forget()
	if l.saved == nil && l.entry.quiet() {
		delete(k.vols, key) // nothing was ever begun
		k.mu.Unlock()
		return nil
	}
	dirty := l.dirty && l.saved != nil // a want alone becomes durable with its first intent
	k.mu.Unlock()
	if !dirty {
		return nil
	}
	return k.save(key)
}

// step makes one call. The intent is durable before it; what it came to is in memory after it.
func (k *Keeper) step(ctx context.Context, key volume.StagingKey, s Step, conn *csimanager.Connection) error {
	k.mu.Lock()
	l := k.vols[key]
	if l == nil {
		k.mu.Unlock()
		return nil
	}
	if err := l.prepare(s, conn, k.cfg.Unreported); err != nil {
		k.mu.Unlock()
		return err
	}
	staging := l.entry.Staging.Presence
	before := intend(l.entry, s)
	if s.Verb == Unpublish && l.entry.Staging.Presence != staging {
		l.early = true
	}
	written := false // the intent is on disk already; the result before it waits for the one after it
	switch {
	case s.Verb == Unstage && l.early:
		before, l.early, written = volume.Present, false, true
	case s.Verb != Expand:
		l.touch()
	}
	l.status, l.lastErr = string(s.Verb)+" in progress", nil
	call, write := k.callOf(l, s, conn), l.dirty && !written
	k.mu.Unlock()
	if write {
		if err := k.save(key); err != nil {
			k.takeBack(key, s, before)
			return err
		}
	}
	l.call.Lock()
	err := call(ctx)
	l.call.Unlock()
	return k.finish(key, s, before, err)
}

// takeBack takes an intent back that never reached the disk and whose call was therefore not made.
func (k *Keeper) takeBack(key volume.StagingKey, s Step, before volume.Presence) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.vols[key]
	if l == nil {
		return
	}
	if p := l.entry.presenceOf(s); p != nil {
		*p = before
	}
	if s.Verb == Unpublish && l.early {
		l.entry.Staging.Presence, l.early = volume.Present, false
	}
}

// finish verifies and writes down what the call came to.
func (k *Keeper) finish(key volume.StagingKey, s Step, before volume.Presence, err error) error {
	o, found, err := k.verifyStep(key, s, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.vols[key]
	if l == nil || l.entry.presenceOf(s) == nil && s.Verb != Expand {
		return err
	}
	if now := l.entry.presenceOf(s); now != nil && s.making() && *now == volume.Lost && o == worked {
		o = other // while the call was under way, a want with other arguments came
	}
	conclude(l.entry, s, before, o)
	l.touch()
	switch {
	case o == worked:
		l.worked(s, found)
		return nil
	case csi.RetryOf(err) == csi.RetryNever || s.Verb == Expand && csi.RetryOf(err) == csi.RetryOffline:
		l.refuse(s, err)
	}
	return err
}

// worked writes down what success adds beyond presence, and forgets a publication that is over.
func (l *lane) worked(s Step, found sight) {
	delete(l.retries, s)
	l.lastErr = nil
	e := l.entry
	switch s.Verb {
	case Stage:
		e.Staging.Mounts = found.mounts
	case Publish:
		p := e.Pubs[s.Alloc]
		p.Device, p.SeenReadOnly = found.device, found.readOnly
	case Expand:
		e.Staging.ExpandedTo = e.Staging.ExpandTo
	case Unpublish:
		l.forget()
	case Unstage:
		// What is to be grown at the next use comes with its grant.
		e.Staging.ExpandTo, e.Staging.ExpandedTo, e.Staging.Mounts = 0, 0, nil
		l.forget()
	}
}

// refuse remembers a final no, so that the call is not made again with equal arguments.
func (l *lane) refuse(s Step, err error) {
	switch s.Verb {
	case Publish:
		l.refused[s.Alloc] = err
	case Stage:
		l.stageRefused = err
	case Expand:
		l.expandRefused = err
	}
}

// failed files when the step is tried again. It reports whether the pass may go on with other steps.
func (k *Keeper) failed(key volume.StagingKey, s Step, err error) (goOn bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.vols[key]
	if l == nil {
		return false
	}
	r := l.retries[s]
	r.failures++
	r.err = err
	r.next = time.Now().Add(pauseAfter(r.failures, err))
	l.retries[s] = r
	l.lastErr, l.status, l.reported = err, "", false
	log := k.cfg.Log.With(logkey.Plugin, key.Plugin, logkey.Volume, key.ExternalID, logkey.Op, s.Verb, logkey.Attempt, r.failures)
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
	case csi.RetryNever:
		return noRetry // another life of the plugin, or another want, ends it
	case csi.RetrySlow:
		return slowRetry
	case csi.RetryAfterUndo:
		return 0 // the undo comes first; it has a pause of its own
	}
	d := minPause
	for range failures - 1 {
		if d *= 2; d >= maxPause {
			d = maxPause
			break
		}
	}
	return d - rand.N(d/5+1)
}

func (k *Keeper) say(key volume.StagingKey, status string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.vols[key]; l != nil && l.status != status {
		l.status, l.lastErr, l.reported = status, nil, false
	}
}
