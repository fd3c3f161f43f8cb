package datadir

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/base/logkey"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/store"
)

// recover brings the data directory, the loop devices and the mounts to a state that some finished call left behind.
// Frozen file systems come first: their users are waiting.
func (p *Directory) recover() error {
	log := p.Log
	bad := func(path string, err error) {
		log.Error("left alone: its record cannot be read; restore that file from a copy and restart the plugin",
			logkey.Path, path, logkey.Error, err)
	}
	if err := p.Volumes.Load(bad); err != nil {
		return err
	}
	if err := p.Snapshots.Load(bad); err != nil {
		return err
	}
	if err := p.Usages.Load(func(path string, err error) {
		log.Warn("dropped a note of earlier use", logkey.Path, path, logkey.Error, err)
	}); err != nil {
		return err
	}
	if err := p.thawAll(); err != nil {
		return err
	}
	p.dropDeadUses()
	if err := p.releaseUnused(); err != nil {
		return err
	}
	for _, dir := range []string{MakingDir, TrashDir} {
		if err := p.emptyOut(dir); err != nil {
			return err
		}
	}
	for _, v := range p.Volumes.All() {
		// An expansion writes the new size first, so the image may be one step behind.
		err := p.WholeVolume(v)
		if err == nil {
			err = image.Extend(p.Volumes.Image(v.Key), v.Size) // an expansion was cut off
		}
		if err != nil {
			log.Error("the image of a volume is damaged", logkey.Volume, p.VolumeID(v.Key), logkey.Error, err)
		}
	}
	return nil
}

// thawAll ends freezes that a killed plugin left, wherever the file system is mounted.
func (p *Directory) thawAll() error {
	entries, err := os.ReadDir(p.Dir(FrozenDir))
	if err != nil || len(entries) == 0 {
		return err
	}
	table, err := mount.LoopTable(loop.Major)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var failed error
		if !store.ValidKey(e.Name()) {
			failed = errors.New("the marker's name is no key of a volume")
		}
		for _, at := range p.mountsOf(e.Name(), table) {
			failed = errors.Join(failed, image.Thaw(at.Path))
		}
		if failed != nil {
			p.Log.Error("a file system may still be frozen", logkey.Volume, p.VolumeID(e.Name()), logkey.Error, failed)
			continue
		}
		if err := os.Remove(filepath.Join(p.Dir(FrozenDir), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// mountsOf lists where the file system of a volume is mounted in this view.
func (p *Directory) mountsOf(key string, table mount.Table) []mount.Point {
	devices, err := loop.Find(p.Volumes.Image(key))
	if err != nil {
		return nil // no image, no mount
	}
	var out []mount.Point
	for _, d := range devices {
		for _, at := range table[d.Number] {
			if at.Device.Major == loop.Major {
				out = append(out, at)
			}
		}
	}
	return out
}

// dropDeadUses forgets what is recorded but not so, and removes the targets that a killed publish or unpublish left.
func (p *Directory) dropDeadUses() {
	for _, key := range p.Usages.Keys() {
		log := p.Log.With(slog.String(logkey.Volume, p.VolumeID(key)))
		u := p.Usages.Get(key)
		v, ok := p.Volumes.Get(key)
		for path := range u.Targets {
			is := Absent
			if ok {
				is = p.Look(v, path)
			}
			if is == Ours {
				continue
			}
			if is == Absent {
				if err := p.removeTarget(path); err != nil {
					log.Warn("a target is neither published nor gone", logkey.Path, path, logkey.Error, err)
				}
			}
			delete(u.Targets, path)
		}
		// A device that could not be released, because it is mounted in another namespace, may be staged again.
		if s := u.Staging; s != nil && !(ok && (p.StagedAt(v, *s) || p.Backs(v, s.Loop))) && len(u.Targets) == 0 {
			u.Staging = nil
		}
		if err := p.Usages.Release(key, u); err != nil {
			log.Warn("a note of earlier use is out of date", logkey.Error, err)
		}
	}
}

// releaseUnused releases our loop devices that are neither mounted nor recorded as staged or published.
func (p *Directory) releaseUnused() error {
	devices, err := loop.List()
	if err != nil {
		return err
	}
	table, err := mount.LoopTable(loop.Major)
	if err != nil {
		return err
	}
	for _, d := range devices {
		key, ours := strings.CutPrefix(d.Label, p.Label(""))
		if !ours || len(table[d.Number]) > 0 || p.recorded(key, d.Number) {
			continue
		}
		if err := loop.Clear(d.Number); err != nil {
			p.Log.Error("a loop device that nobody uses stays bound", logkey.Path, loop.Path(d.Number), logkey.Volume,
				p.VolumeID(key), logkey.Error, err)
			continue
		}
		p.Log.Info("released a loop device that nobody uses", logkey.Path, loop.Path(d.Number), logkey.Volume,
			p.VolumeID(key))
	}
	return nil
}

func (p *Directory) recorded(key string, n int) bool {
	u := p.Usages.Get(key)
	if u.Staging != nil && u.Staging.FS == "" && u.Staging.Loop == n {
		return true
	}
	for _, t := range u.Targets {
		if t.Loop == n {
			return true
		}
	}
	return false
}

// emptyOut removes what lies half-made or half-deleted in dir.
func (p *Directory) emptyOut(dir string) error {
	entries, err := os.ReadDir(p.Dir(dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(p.Dir(dir), e.Name())
		if !e.IsDir() {
			err = os.Remove(path)
		} else {
			err = store.RemoveFlat(path)
		}
		if err != nil {
			p.Log.Error("what was half-made or deleted still takes room", logkey.Path, path, logkey.Error, err)
		}
	}
	return nil
}
