package node

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/port/kv"
)

const bucket = "csi-volumes"

// load reads every record. A damaged one is kept in the store and reported; its mounts are found by their id files.
func (k *Keeper) load() error {
	return k.cfg.Store.View(func(tx *kv.Tx) error {
		return kv.All(tx, bucket,
			func(_ string, e *entry.Entry) error {
				vs := newVolumeState(e)
				vs.saved, vs.record = e.Clone(), entry.LoadedRecord
				if e.WakeOnBoot(k.cfg.Boot) {
					vs.touch()
				}
				k.vols[e.Key] = vs
				return nil
			},
			func(key string, err error) error {
				if named, ok := entry.KeyOf(key); ok {
					k.damaged = append(k.damaged, named)
				}
				k.cfg.Log.Error("a volume record of this node is damaged; it is kept and its mounts are left alone",
					"record", fmt.Sprintf("%q", key), logkey.Error, err)
				return nil
			})
	})
}

// save makes the present state of an entry durable. Inside the transaction it reads the newest state, so that a later
// save never writes an older one. A failed save means: do not act, say it loudly, try again.
func (k *Keeper) save(key volume.StagingKey) error {
	var now *entry.Entry
	err := k.cfg.Store.Update(func(tx *kv.Tx) error {
		k.mu.Lock()
		vs := k.vols[key]
		if vs == nil {
			k.mu.Unlock()
			return nil
		}
		now = vs.entry.Clone()
		vs.on(entry.Writing)
		k.mu.Unlock()
		return tx.Put(bucket, entry.StoreKey(key), now)
	})
	k.mu.Lock()
	switch vs := k.vols[key]; {
	case vs == nil:
	case err == nil:
		vs.saved = now
		vs.on(entry.Written)
	case vs.saved == nil:
		vs.on(entry.Erased)
	default:
		vs.on(entry.Unwritten)
	}
	k.mu.Unlock()
	if err != nil {
		k.cfg.Log.Error("the volume journal cannot be written; nothing new is mounted until it can", logkey.Volume,
			key.ExternalID, logkey.Error, err)
		return fault.Note(err, "record", entry.Describe(key))
	}
	k.changed.Notify()
	return nil
}

// erase deletes the record of an entry that nobody else has any more. Its directories are gone already. A want that
// comes meanwhile keeps the entry; its record is written with its first intent.
func (k *Keeper) erase(key volume.StagingKey) error {
	var gone bool
	err := k.cfg.Store.Update(func(tx *kv.Tx) error {
		k.mu.Lock()
		vs := k.vols[key]
		gone = vs != nil && vs.record.Fate(vs.entry.Quiet()) == entry.Erase
		k.mu.Unlock()
		if !gone {
			return nil
		}
		return tx.Delete(bucket, entry.StoreKey(key))
	})
	if err != nil {
		return fault.Note(err, "erase the record of", entry.Describe(key))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if vs := k.vols[key]; vs != nil && gone {
		vs.saved = nil
		vs.on(entry.Erased)
	}
	return nil
}
