package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/base/fault"
	"berth/internal/base/volumestore"
	"berth/internal/localcsi/store"
)

// Found counts what lies in a data directory and can be read.
type Found struct{ Volumes, Snapshots int }

// Check reads the records of a data directory, and returns what is damaged, by its path. It changes nothing, and a
// plugin may serve the directory meanwhile. One that is not there has nothing; one in the place of that of which
// identity is the copy is damaged by that alone.
func Check(root, identity string) (Found, []error) {
	switch err := volumestore.Judge(root, identity); {
	case fault.Has(err, fault.NotReady): // the next start asks
		return Found{}, nil
	case err != nil:
		return Found{}, []error{err}
	}
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return Found{}, nil
	}
	p := &Directory{Settings: Settings{Root: root}}
	var found []error
	bad := func(path string, err error) { found = append(found, fmt.Errorf("check %s: %w", path, err)) }
	var at volumestore.Identity
	err := store.ReadJSON(p.Dir(IdentityFile), &at)
	if held, herr := volumestore.Held(root); errors.Is(err, fs.ErrNotExist) && herr == nil && !held {
		err = nil
	}
	if err != nil {
		bad(p.Dir(IdentityFile), err)
	}
	p.Volumes = store.NewCollection[*store.Volume](p.Dir(VolumesDir), p.Dir(TrashDir))
	p.Snapshots = store.NewCollection[*store.Snapshot](p.Dir(SnapshotsDir), p.Dir(TrashDir))
	for _, load := range []func(func(string, error)) error{p.Volumes.Load, p.Snapshots.Load} {
		if err := load(bad); err != nil && !errors.Is(err, fs.ErrNotExist) {
			found = append(found, err)
		}
	}
	for _, v := range p.Volumes.All() {
		if err := p.WholeVolume(v); err != nil {
			bad(filepath.Dir(p.Volumes.Image(v.Key)), err)
		}
	}
	for _, s := range p.Snapshots.All() {
		if err := p.WholeSnapshot(s); err != nil {
			bad(filepath.Dir(p.Snapshots.Image(s.Key)), err)
		}
	}
	return Found{Volumes: len(p.Volumes.All()), Snapshots: len(p.Snapshots.All())}, found
}
