package evidence

import (
	"log/slog"
	"slices"

	"berth/internal/base/logkey"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

const forgottenBucket = "csi-forgotten-mounts"

// forgotten is an unknown mount that a person has said to be none of ours.
type forgotten struct {
	Mount  volume.UnknownMount
	ID     string // of the mount, never given again
	Reason string
	By     string
}

// Forgotten is what people have said of unknown mounts.
type Forgotten struct {
	Store *kv.Store
	Boot  string
	Log   *slog.Logger
}

// Without leaves out what a person has said to be none of ours, as long as that very mount is there.
func (s Forgotten) Without(found []volume.UnknownMount, table *hostfs.Table) ([]volume.UnknownMount, error) {
	said := map[volume.UnknownMount]bool{}
	err := s.Store.View(func(tx *kv.Tx) error {
		return kv.All(tx, forgottenBucket,
			func(_ string, f *forgotten) error {
				m, _ := table.At(f.Mount.Path)
				said[f.Mount] = f.ID == MountID(s.Boot, m)
				return nil
			},
			func(key string, err error) error {
				s.Log.Error("what was said of an unknown mount cannot be read: it counts again", logkey.Path, key,
					logkey.Error, err)
				return nil
			})
	})
	return slices.DeleteFunc(found, func(u volume.UnknownMount) bool { return said[u] }), err
}

// Add writes down what a person says of an unknown mount; an id file that cannot be read is removed.
func (s Forgotten) Add(u volume.UnknownMount, reason, by string) error {
	if u.Device == "" {
		return remove(IDFileOf(u.Path))
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	m, _ := table.At(u.Path)
	f := forgotten{
		Mount:  u,
		ID:     MountID(s.Boot, m),
		Reason: reason,
		By:     by,
	}
	return s.Store.Update(func(tx *kv.Tx) error { return tx.Put(forgottenBucket, u.Path, f) })
}
