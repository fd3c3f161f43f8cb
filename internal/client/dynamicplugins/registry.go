package dynamicplugins

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/plugin"
	"berth/internal/port/kv"
)

const bucket = "dynamic-plugins"

// Store is the persisted Registry.
type Store struct {
	kv      *kv.Store
	changed lifecycle.Signal
	mu      sync.Mutex
	infos   map[Key]Info
}

var _ Registry = (*Store)(nil)

// Open loads the registry from the local store. A damaged record is reported and left out: its plugin declares itself
// again when its hook runs.
func Open(store *kv.Store, log *slog.Logger) (*Store, error) {
	s := &Store{kv: store, infos: map[Key]Info{}}
	err := store.View(func(tx *kv.Tx) error {
		return kv.All(tx, bucket,
			func(_ string, i *Info) error { s.infos[i.Key()] = *i; return nil },
			func(key string, err error) error {
				log.Error("a plugin record of this node is damaged; the plugin will be declared again by its task", "record", fmt.Sprintf("%q", key), logkey.Error, err)
				return nil
			})
	})
	return s, err
}

func recordKey(k Key) string {
	return string(k.Role) + "\x00" + string(k.Plugin) + "\x00" + string(k.Alloc)
}

// Register implements Registry.
func (s *Store) Register(i Info) error {
	s.mu.Lock()
	old, ok := s.infos[i.Key()]
	s.mu.Unlock()
	if ok {
		i.Declared = old.Declared
	}
	if err := s.kv.Update(func(tx *kv.Tx) error { return tx.Put(bucket, recordKey(i.Key()), i) }); err != nil {
		return err
	}
	s.mu.Lock()
	s.infos[i.Key()] = i
	s.mu.Unlock()
	s.changed.Notify()
	return nil
}

// Deregister implements Registry.
func (s *Store) Deregister(role plugin.Role, id ids.Plugin, alloc ids.Alloc) error {
	k := Key{Role: role, Plugin: id, Alloc: alloc}
	if err := s.kv.Update(func(tx *kv.Tx) error { return tx.Delete(bucket, recordKey(k)) }); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.infos, k)
	s.mu.Unlock()
	s.changed.Notify()
	return nil
}

// Current implements Registry.
func (s *Store) Current(role plugin.Role, id ids.Plugin) (Info, bool) {
	var best Info
	found := false
	for _, i := range s.List() {
		if i.Role == role && i.Plugin == id && (!found || i.Declared.After(best.Declared)) {
			best, found = i, true
		}
	}
	return best, found
}

// List implements Registry.
func (s *Store) List() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.infos), func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Alloc, b.Alloc))
	})
}

// Changed implements Registry.
func (s *Store) Changed() <-chan struct{} { return s.changed.C() }
