package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"berth/internal/base/backup"
	"berth/internal/base/volumestore"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// List returns the volumes and snapshots in a data directory, their paths beneath it, and what is damaged: snapshots
// that have lost their content are not in the list; of volumes that is said when they are to be copied. It changes
// nothing, and a plugin may serve the directory meanwhile. One that is not there has nothing, unless identity is the
// copy of what was there.
func List(root, identity string) (list []backup.Image, bad []error) {
	if err := volumestore.Judge(root, identity); err != nil {
		return nil, []error{err}
	}
	var at volumestore.Identity
	switch err := store.ReadJSON(filepath.Join(root, IdentityFile), &at); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, []error{fmt.Errorf("read %s: %w", filepath.Join(root, IdentityFile), err)}
	}
	p := &Directory{Settings: Settings{Root: root, Node: at.Node}}
	p.Volumes = store.NewCollection[*store.Volume](p.Dir(VolumesDir), p.Dir(TrashDir))
	p.Snapshots = store.NewCollection[*store.Snapshot](p.Dir(SnapshotsDir), p.Dir(TrashDir))
	gone := func(err error) bool { return errors.Is(err, fs.ErrNotExist) } // deleted meanwhile
	for _, load := range []func(func(string, error)) error{p.Volumes.Load, p.Snapshots.Load} {
		err := load(func(path string, err error) {
			if !gone(err) {
				bad = append(bad, fmt.Errorf("read %s: %w", path, err))
			}
		})
		if err != nil && !gone(err) {
			bad = append(bad, err)
		}
	}
	add := func(one backup.Image, dir, key string) {
		one.Record, one.Data = filepath.Join(dir, key, store.MetaFile), filepath.Join(dir, key, store.ImageFile)
		takes, err := image.Allocated(filepath.Join(root, one.Data))
		switch {
		case err == nil:
			one.Takes = takes
			list = append(list, one)
		case !gone(err):
			bad = append(bad, err)
		}
	}
	for _, v := range p.Volumes.All() {
		add(backup.Image{ID: p.VolumeID(v.Key), Name: v.Name}, VolumesDir, v.Key)
	}
	for _, s := range p.Snapshots.All() {
		if err := p.WholeSnapshot(s); err != nil {
			if !gone(err) {
				bad = append(bad, fmt.Errorf("snapshot %s: %w", p.SnapshotID(s.Key), err))
			}
			continue
		}
		add(backup.Image{ID: p.SnapshotID(s.Key), Name: s.Name, Snapshot: true}, SnapshotsDir, s.Key)
	}
	return list, bad
}

// SnapshotIn returns the paths of a snapshot beneath its data directory.
func SnapshotIn(id, node string) (one backup.Image, err error) {
	key, kind := request.ParseID(request.SnapshotPrefix, id, node)
	if kind != request.Here {
		return one, fmt.Errorf("%q is no snapshot of node %s", id, node)
	}
	return backup.Image{ID: id, Snapshot: true, Record: filepath.Join(SnapshotsDir, key, store.MetaFile),
		Data: filepath.Join(SnapshotsDir, key, store.ImageFile)}, nil
}
