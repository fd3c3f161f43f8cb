package node

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
)

// lives asks whether the file system of a publication still takes what its alloc wants of it. One that does not is
// given up. What gives no answer is asked again. Before a first start the mount table alone is asked.
func (k *Keeper) lives(ctx context.Context, key volume.PublicationKey, again bool) error {
	k.mu.Lock()
	at := k.vols[key.StagingKey].version()
	k.mu.Unlock()
	e := k.Snapshot(key.StagingKey)
	ask := k.cfg.Dead
	if !again {
		ask = evidence.Shown
	}
	if ask == nil || e == nil || !e.Shows(key.Alloc) {
		return nil
	}
	why, err := ask(ctx, e, key.Alloc)
	switch {
	case err != nil:
		return fault.Wrap(err, fault.NotReady, "use", entry.Describe(key.StagingKey))
	case why == "":
		return nil
	}
	k.giveUp(key, at, why)
	return k.notPublished(key)
}

// giveUp gives up the file system that an alloc's publication shows, unless the entry has changed since it was looked
// at: then whoever asks asks again.
func (k *Keeper) giveUp(key volume.PublicationKey, at version, why string) {
	k.mu.Lock()
	vs := k.vols[key.StagingKey]
	if vs == nil || vs.version() != at {
		k.mu.Unlock()
		return
	}
	vs.entry.GiveUp(key.Alloc, why)
	vs.touch()
	k.victims = append(k.victims, victim{key.Alloc, vs.entry.Pubs[key.Alloc].Alias, why})
	k.mu.Unlock()
	k.cfg.Log.Warn("the file system of a volume is dead: it is mounted anew when nobody here uses it", logkey.Volume,
		key.ExternalID, logkey.Alloc, key.Alloc, "reason", why)
	k.changed.Notify()
	k.reportVictims()
	k.loop.Mark(key.StagingKey)
}

// notPublished is why an alloc cannot use a volume now.
func (k *Keeper) notPublished(key volume.PublicationKey) error {
	why := "it is not published for this allocation"
	if e := k.Snapshot(key.StagingKey); e != nil && e.Staging.Dead != "" {
		why = e.Staging.Dead + "; it is to be mounted anew"
	}
	return fault.New(fault.NotReady, "use", entry.Describe(key.StagingKey), why)
}
