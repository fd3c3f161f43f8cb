package node

import (
	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/evidence"
)

// adoptUnrecorded makes entries of the stagings and publications that the store does not know but whose id files are
// there: the journal was damaged, or restored from an older copy. They are Uncertain. What nobody can name is reported,
// and left alone, for nobody knows whose data it is.
func (k *Keeper) adoptUnrecorded() error {
	if k.cfg.DataDir == "" {
		return nil
	}
	names, err := evidence.IDFiles(k.cfg.DataDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := evidence.ReadIDFile(k.cfg.Codec, name)
		if f != nil && f.Pub != nil {
			f.Pub.Wanted = true // a want of an alloc that is not here is withdrawn
		}
		k.mu.Lock()
		switch {
		case err != nil:
			if !fault.Has(err, fault.Conflict) { // a copy says nothing of the place where it lies
				k.broken = append(k.broken, name)
			}
			k.cfg.Log.Error("a file that names a mount cannot be read", logkey.Path, name, logkey.Error, err)
		case f != nil && k.adopt(f):
			k.cfg.Log.Warn("a volume that the journal lost is adopted by its id file", logkey.Plugin, f.Key.Plugin,
				logkey.Volume, f.Key.ExternalID, logkey.Alloc, f.Alloc, logkey.Path, name)
		}
		k.mu.Unlock()
	}
	return k.lookForUnknown()
}

// adopt adds what the entries lack of a staging or publication that was found. The caller holds the lock.
func (k *Keeper) adopt(f *evidence.IDFile) (adopted bool) {
	vs := k.state(f.Key, f.Volume)
	if adopted = f.Into(vs.entry); adopted {
		vs.touch()
	}
	return adopted
}

// paths are the host paths of all entries.
func (k *Keeper) paths() map[string]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := map[string]bool{}
	for _, vs := range k.vols {
		known[vs.entry.Staging.HostPath] = true
		for _, p := range vs.entry.Pubs {
			known[p.HostPath] = true
		}
	}
	return known
}
