package node

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// Dead says of the volumes that allocs of this node use whose file systems take no writes any more, or nothing, and
// what is to be done. It asks the mount table alone, so that it may be asked often. Nothing is given up for it: who
// still reads from one goes on until it starts again.
func (k *Keeper) Dead() (map[volume.StagingKey]string, error) {
	table, err := hostfs.ReadTableAnew() // no event says that a file system became read-only by itself
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[volume.StagingKey]string{}
	for key, vs := range k.vols {
		for id := range vs.users() {
			if why := evidence.Dead(vs.entry, id, table); why != "" {
				out[key] = why + ": what is written to it fails, and what was not synced is lost; when the disk beneath " +
					"it is well and has space again, restart the allocations that use it (berth alloc restart): it is " +
					"staged anew before their tasks start"
				break
			}
		}
	}
	return out, nil
}

// shownAlive refuses an alloc whose publication the mount table shows to be dead; that is given up. A file system may
// have died before the first task of an alloc starts on it.
func (k *Keeper) shownAlive(key volume.PublicationKey) error {
	k.mu.Lock()
	at := k.vols[key.StagingKey].version()
	k.mu.Unlock()
	e := k.snapshot(key.StagingKey)
	if e == nil {
		return nil
	}
	table, err := hostfs.ReadTableAnew()
	if err != nil {
		return err
	}
	if why := evidence.Dead(e, key.Alloc, table); why != "" {
		k.giveUp(key, at, why)
		return k.notPublished(key)
	}
	return nil
}

// lives asks whether the file system of a publication still takes what its alloc wants of it. One that does not is
// given up. What gives no answer is asked again.
func (k *Keeper) lives(ctx context.Context, key volume.PublicationKey) error {
	k.mu.Lock()
	at := k.vols[key.StagingKey].version()
	k.mu.Unlock()
	e := k.snapshot(key.StagingKey)
	if k.cfg.Dead == nil || e == nil || !e.Shows(key.Alloc) {
		return nil
	}
	why, err := k.cfg.Dead(ctx, e, key.Alloc)
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
	if e := k.snapshot(key.StagingKey); e != nil && e.Staging.Dead != "" {
		why = e.Staging.Dead + "; it is to be mounted anew"
	}
	return fault.New(fault.NotReady, "use", entry.Describe(key.StagingKey), why)
}
