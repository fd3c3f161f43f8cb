package volumes

import (
	"context"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/base/retry"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// Times of reading what providers list: how often, unless the configuration says otherwise, and how soon something that
// differs is looked at once more. A list is not consistent: what it says once is not believed.
const (
	listPeriod  = 10 * time.Minute
	confirmSoon = 30 * time.Second
)

// observations is the schema from which on volumes carry what their provider's list says.
const observations = 5

// lists is when each plugin's list is read next, and what it said last that differs from the records.
type lists struct {
	mu   sync.Mutex
	next map[ids.Plugin]time.Time
	said map[volume.ID]*volume.Observed
}

// known reports whether a plugin's list has a time to be read at, and gives it one if it has none.
func (l *lists) known(id ids.Plugin, pause time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.next[id]; known {
		return true
	}
	l.again(id, pause)
	return false
}

// again sets when a list is read next. The caller holds the lock.
func (l *lists) again(id ids.Plugin, pause time.Duration) {
	if l.next == nil {
		l.next, l.said = map[ids.Plugin]time.Time{}, map[volume.ID]*volume.Observed{}
	}
	l.next[id] = time.Now().Add(pause)
}

func (l *lists) left(id ids.Plugin) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.next[id])
}

func (l *lists) forget(id ids.Plugin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.next, id)
}

// twice notes what a list says of a volume, and reports whether it said the same before.
func (l *lists) twice(id volume.ID, o *volume.Observed) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.said[id]
	if o == nil {
		delete(l.said, id)
		return true
	}
	l.said[id] = o
	return o.Same(before)
}

// pause is the time to the next reading, spread so that the plugins of a cluster are not asked at once.
func (k *Keeper) pause() time.Duration {
	period := k.cfg.ListPeriod
	if period <= 0 {
		period = listPeriod
	}
	return retry.Backoff{Min: period, Max: period}.Jittered(1)
}

// stepList reads what a plugin's provider has, and holds the records against it.
func (k *Keeper) stepList(ctx context.Context, id ids.Plugin) (reconcile.Result, error) {
	s := k.cfg.Store.Snapshot()
	rec := s.Plugin(nil, id)
	if rec == nil {
		k.lists.forget(id)
		return reconcile.Done(), nil
	}
	if left := k.lists.left(id); left > 0 {
		return reconcile.Again(left, "the provider's list is read then"), nil
	}
	pause := k.pause()
	if m := s.Meta(nil); (rec.Controller.ListVolumes || k.cfg.AlphaGetVolume) && m != nil && m.Schema >= observations {
		read := k.readLists
		if !rec.Controller.ListVolumes {
			read = k.readEach
		}
		doubt, err := read(ctx, rec)
		if err != nil && ctx.Err() == nil {
			k.cfg.Log.Debug("what a provider has is not known", logkey.Plugin, id, logkey.Error, err)
		}
		if doubt {
			pause = min(pause, confirmSoon)
		}
	}
	k.lists.mu.Lock()
	defer k.lists.mu.Unlock()
	k.lists.again(id, pause)
	return reconcile.Again(pause, "the provider's list is read then"), nil
}

// readLists reads the list of a plugin's provider; of one whose nodes list their own, the list of each. Doubt:
// something differs that was not read twice.
func (k *Keeper) readLists(ctx context.Context, rec *plugin.Record) (doubt bool, err error) {
	homes := []ids.Node{""}
	if rec.Scope == plugin.ScopeNode {
		homes = nil
		for n := range k.cfg.Store.Snapshot().Nodes(nil, "") {
			homes = append(homes, n.ID)
		}
	}
	for _, home := range homes {
		before := k.cfg.Store.Snapshot()
		executor, why := k.cfg.Dispatch.Executor(before, rec.ID, home)
		if executor == "" {
			if home == "" {
				return doubt, fault.New(fault.NotReady, "list", string(rec.ID), why)
			}
			continue // this node is asked when it is back
		}
		listed, err := k.verifier.Listed(ctx, rec.ID, rec.Provider, home, executor)
		if err != nil {
			return doubt, err
		}
		for v := range before.VolumesByPlugin(nil, rec.ID) {
			if rec.Scope == plugin.ScopeNode && v.Status.HomeNode != home || rec.Foreign(v.Status.Provider) != "" {
				continue
			}
			again, err := k.observe(ctx, before, v, listed[v.Status.ExternalID])
			if err != nil {
				return doubt, err
			}
			doubt = doubt || again
		}
	}
	return doubt, nil
}

// observe holds one volume against what the provider says of it; nil: that it has none. What has changed since before
// that was read is left to the next time.
func (k *Keeper) observe(
	ctx context.Context, before *state.Snap, v *volume.Volume, listed *volume.Listed,
) (doubt bool, err error) {
	now := k.cfg.Store.Snapshot()
	cur := now.Volume(nil, v.ID)
	if v.Status.Phase != volume.PhaseReady || cur == nil || cur.ModifyIndex != v.ModifyIndex {
		return false, nil
	}
	var attachments []*volume.Attachment
	for a := range before.AttachmentsOf(nil, v.Staging()) {
		attachments = append(attachments, a)
	}
	for a := range now.AttachmentsOf(nil, v.Staging()) {
		attachments = append(attachments, a) // one that came meanwhile is known, too
	}
	o := volume.Observe(attachments, listed)
	if !k.lists.twice(v.ID, o) {
		return true, nil
	}
	if o.Same(v.Status.Observed) {
		return false, nil
	}
	n := *v
	if n.Status.Observed = o; o != nil {
		o.Since = time.Now().UTC()
	}
	stored, err := Put(ctx, k.cfg.Proposer, &n, v.ModifyIndex, nil)
	switch {
	case fault.Has(err, fault.Conflict):
		return true, nil // it has changed
	case err != nil:
		return false, err
	}
	if text := stored.Status.Observed.Sentences(); len(text) > 0 {
		k.cfg.Log.Warn("a volume is not at its provider as it is recorded", logkey.Volume, v.ID.String(), logkey.Plugin,
			v.Spec.Plugin, "observed", text)
	} else {
		k.cfg.Log.Info("a volume is at its provider as it is recorded again", logkey.Volume, v.ID.String())
	}
	return false, nil
}
