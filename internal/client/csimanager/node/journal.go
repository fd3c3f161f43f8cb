package node

import (
	"errors"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/model/volume"
	"berth/internal/port/kv"
)

const bucket = "csi-volumes"

// load reads every record. A damaged one is kept in the store and reported; its mounts are found by their id files.
func (k *Keeper) load() error {
	return k.cfg.Store.View(func(tx *kv.Tx) error {
		return kv.All(tx, bucket,
			func(_ string, e *Entry) error {
				l := newLane(e)
				l.saved = e.clone()
				l.dirty = e.wakeOnBoot(k.cfg.Boot)
				k.vols[e.Key] = l
				return nil
			},
			func(key string, err error) error {
				k.cfg.Log.Error("a volume record of this node is damaged; it is kept and its mounts are left alone", "record", fmt.Sprintf("%q", key), logkey.Error, err)
				return nil
			})
	})
}

// save makes the present state of an entry durable. Inside the transaction it reads the newest state, so that a later
// save never writes an older one. A failed save means: do not act, say it loudly, try again.
func (k *Keeper) save(key volume.StagingKey) error {
	var written *Entry
	err := k.cfg.Store.Update(func(tx *kv.Tx) error {
		k.mu.Lock()
		l := k.vols[key]
		if l == nil {
			k.mu.Unlock()
			return tx.Delete(bucket, keyString(key))
		}
		written = l.entry.clone()
		l.dirty = false
		k.mu.Unlock()
		return tx.Put(bucket, keyString(key), written)
	})
	k.mu.Lock()
	if l := k.vols[key]; l != nil && err != nil {
		l.dirty = true
	} else if l != nil {
		// Reports tell only what is durable: what was told during the write was the state before it.
		l.saved, l.reported = written, false
	}
	k.mu.Unlock()
	if err != nil {
		k.cfg.Log.Error("the volume journal cannot be written; nothing new is mounted until it can", logkey.Volume, key.ExternalID, logkey.Error, err)
		return fault.Note(err, "record", describeKey(key))
	}
	k.changed.Notify()
	return nil
}

// erase forgets entries that the servers acknowledged as let go. Their directories are gone already.
func (k *Keeper) erase(keys []volume.StagingKey) error {
	var gone []volume.StagingKey
	k.mu.Lock()
	for _, key := range keys {
		if l := k.vols[key]; l != nil && l.entry.quiet() && l.reported && !l.dirty {
			delete(k.vols, key)
			gone = append(gone, key)
		}
	}
	k.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	return k.cfg.Store.Update(func(tx *kv.Tx) error {
		var errs []error
		for _, key := range gone {
			k.mu.Lock()
			back := k.vols[key] != nil
			k.mu.Unlock()
			if back { // somebody wants it anew: its record is the new one's
				continue
			}
			errs = append(errs, tx.Delete(bucket, keyString(key)))
		}
		return errors.Join(errs...)
	})
}
