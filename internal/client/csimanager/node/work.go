package node

import (
	"context"
	"errors"
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

// slowRetry is the pause after an answer that only a person or a change can mend.
const slowRetry = 5 * time.Minute

// work brings one volume on: next step, intent on disk, call, verification, result. The result of a step and the intent
// of the next share a transaction.
func (k *Keeper) work(ctx context.Context, key volume.StagingKey) (reconcile.Result, error) {
	defer k.changed.Notify()
	for ctx.Err() == nil {
		step, ok := k.plan(key)
		if !ok {
			return reconcile.Done(), k.settle(key)
		}
		conn, err := k.cfg.Plugins.Use(key.Plugin, plugin.RoleNode)
		if err != nil {
			// Not ready is waiting: the instance's change marks this key again.
			k.say(key, err.Error(), nil)
			return reconcile.Done(), k.settle(key)
		}
		err = k.step(ctx, key, step, conn)
		conn.Release()
		if err != nil {
			return k.afterFailure(key, err)
		}
		k.changed.Notify()
	}
	return reconcile.Done(), nil
}

// plan reads the facts and picks the step.
func (k *Keeper) plan(key volume.StagingKey) (Step, bool) {
	armed := k.cfg.Armed.Armed()
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.vols[key]
	if l == nil {
		return Step{}, false
	}
	f := Facts{Armed: armed, Gone: map[ids.Alloc]bool{}, Granted: map[ids.Alloc]bool{}, Refused: map[ids.Alloc]bool{},
		StageRefused: l.stageRefused != nil, ExpandRefused: l.expandRefused != nil}
	why := ""
	for id := range l.entry.Pubs {
		gone, w := k.cfg.Processes.ProcessesGone(id)
		f.Gone[id] = gone
		if !gone && w != "" {
			why = w
		}
		_, f.Granted[id] = l.grants[id]
		f.Refused[id] = l.refused[id] != nil
	}
	steps, wait := Next(l.entry, f)
	if len(steps) > 0 {
		return steps[0], true
	}
	l.status = string(wait)
	if wait == WaitProcesses && why != "" {
		l.status += ": " + why
	}
	if wait == WaitNothing {
		l.lastErr = nil
	}
	return Step{}, false
}

// settle saves what is not saved and drops publications that are over.
func (k *Keeper) settle(key volume.StagingKey) error {
	k.mu.Lock()
	l := k.vols[key]
	if l == nil {
		k.mu.Unlock()
		return nil
	}
	for id, p := range l.entry.Pubs {
		if !p.Wanted && !p.Presence.Exists() {
			delete(l.entry.Pubs, id)
			l.dirty, l.reported = true, false
		}
	}
	dirty := l.dirty
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
	if err := k.prepare(l, s, conn); err != nil {
		k.mu.Unlock()
		return err
	}
	before := intend(l.entry, s)
	l.dirty, l.reported = true, false
	l.status = string(s.Verb) + " in progress"
	call := k.callOf(l, s, conn)
	k.mu.Unlock()
	if err := k.save(key); err != nil {
		k.withdraw(key, s, before)
		return err
	}
	l.call.Lock()
	err := call(ctx)
	l.call.Unlock()
	return k.finish(key, s, before, err, conn)
}

// withdraw takes an intent back that never reached the disk and whose call was therefore not made.
func (k *Keeper) withdraw(key volume.StagingKey, s Step, before volume.Presence) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.vols[key]; l != nil {
		if p := l.entry.presenceOf(s); p != nil {
			*p = before
		}
	}
}

// finish verifies and writes down what the call came to.
func (k *Keeper) finish(key volume.StagingKey, s Step, before volume.Presence, err error, conn *csimanager.Connection) error {
	o, err := k.verifyStep(key, s, err, conn)
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.vols[key]
	if l == nil {
		return err
	}
	conclude(l.entry, s, before, o)
	l.dirty, l.reported = true, false
	l.lastErr = err
	switch {
	case o == worked:
		k.worked(l, s)
	case csi.RetryOf(err) == csi.RetryAfterUndo:
		if p := l.entry.presenceOf(s); p != nil {
			*p = volume.Lost
		}
	case o == refused && csi.RetryOf(err) == csi.RetryNever || s.Verb == Expand && csi.RetryOf(err) == csi.RetryOffline:
		return l.refuse(s, err)
	}
	return err
}

// worked writes down what success adds beyond presence, and forgets a publication that is over.
func (k *Keeper) worked(l *lane, s Step) {
	switch s.Verb {
	case Expand:
		l.entry.Staging.ExpandedTo = l.entry.Staging.ExpandTo
	case Unpublish:
		if p := l.entry.Pubs[s.Alloc]; !p.Wanted {
			delete(l.entry.Pubs, s.Alloc)
		}
	case Unstage:
		l.entry.Staging.ExpandedTo = 0
		for id, p := range l.entry.Pubs {
			if !p.Wanted && !p.Presence.Exists() {
				delete(l.entry.Pubs, id)
			}
		}
	}
}

// refuse remembers a final no, so that the call is not made again with equal arguments.
func (l *lane) refuse(s Step, err error) error {
	switch s.Verb {
	case Publish:
		l.refused[s.Alloc] = err
		return nil
	case Stage:
		l.stageRefused = err
		return nil
	case Expand:
		l.expandRefused = err
		return nil
	}
	return err
}

// afterFailure decides when the key is tried again.
func (k *Keeper) afterFailure(key volume.StagingKey, err error) (reconcile.Result, error) {
	if serr := k.settle(key); serr != nil {
		return reconcile.Done(), errors.Join(err, serr)
	}
	if fault.Has(err, fault.NotReady) {
		k.say(key, err.Error(), nil)
		return reconcile.Again(time.Second, err.Error()), nil
	}
	k.say(key, "", err)
	k.cfg.Log.Warn("a volume step did not succeed", logkey.Plugin, key.Plugin, logkey.Volume, key.ExternalID, logkey.Error, err)
	if r := csi.RetryOf(err); r == csi.RetrySlow || r == csi.RetryNever {
		return reconcile.Again(slowRetry, err.Error()), nil
	}
	return reconcile.Result{}, err
}

func (k *Keeper) say(key volume.StagingKey, status string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.vols[key]; l != nil {
		if l.status != status || err != nil {
			l.reported = l.reported && status == l.status
		}
		l.status, l.lastErr = status, err
	}
}
