package dynamicplugins

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/plugin"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

const bucket = "dynamic-plugins"

// endsBucket has how the last processes ended, apart from what is declared: an agent of before refuses a record with a
// field that it does not know, and never looks here.
const endsBucket = "dynamic-plugin-ends"

// end is how the last process of an instance's task ended.
type end struct{ How string }

// Registry is the persisted list of instances; hooks write it, csimanager/instance reads it.
type Registry struct {
	kv      *kv.Store
	changed lifecycle.Signal
	mu      sync.Mutex
	infos   map[Key]Info
}

// Open loads the registry from the local store. A damaged record is reported and left out: its plugin declares itself
// again when its hook runs.
func Open(store *kv.Store, log *slog.Logger) (*Registry, error) {
	s := &Registry{kv: store, infos: map[Key]Info{}}
	err := store.View(func(tx *kv.Tx) error {
		return kv.All(tx, bucket,
			func(key string, i *Info) error {
				var last end
				if _, err := tx.Get(endsBucket, key, &last); err != nil {
					log.Warn("how a plugin ended last is not known: its record is damaged", "record",
						fmt.Sprintf("%q", key), logkey.Error, err)
				}
				i.Ended = last.How
				s.infos[i.Key()] = *i
				return nil
			},
			func(key string, err error) error {
				log.Error("a plugin record of this node is damaged; the plugin will be declared again by its task",
					"record", fmt.Sprintf("%q", key), logkey.Error, err)
				return nil
			})
	})
	return s, err
}

func recordKey(k Key) string {
	return string(k.Role) + "\x00" + string(k.Plugin) + "\x00" + string(k.Alloc)
}

// Register declares an instance durably; the same alloc again is an update.
func (s *Registry) Register(i Info) error {
	s.mu.Lock()
	old, ok := s.infos[i.Key()]
	s.mu.Unlock()
	if ok {
		i.Declared, i.Ended = old.Declared, old.Ended
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

// Deregister withdraws it durably; withdrawing what is not there is no error.
func (s *Registry) Deregister(role plugin.Role, id ids.Plugin, alloc ids.Alloc) error {
	k := Key{Role: role, Plugin: id, Alloc: alloc}
	if err := s.kv.Update(func(tx *kv.Tx) error {
		return errors.Join(tx.Delete(endsBucket, recordKey(k)), tx.Delete(bucket, recordKey(k)))
	}); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.infos, k)
	s.mu.Unlock()
	s.changed.Notify()
	return nil
}

// Ended notes of all roles of a task how its last process ended; empty: after it had served. What cannot be written, as
// on a full disk, is known until the agent ends.
func (s *Registry) Ended(alloc ids.Alloc, task, how string) error {
	var changed []Info
	s.mu.Lock()
	for k, i := range s.infos {
		if i.Alloc == alloc && i.Task == task && i.Ended != how {
			i.Ended = how
			s.infos[k] = i
			changed = append(changed, i)
		}
	}
	s.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	s.changed.Notify()
	return s.kv.Update(func(tx *kv.Tx) error {
		for _, i := range changed {
			if err := tx.Put(endsBucket, recordKey(i.Key()), end{how}); err != nil {
				return err
			}
		}
		return nil
	})
}

// List returns all, ordered by key.
func (s *Registry) List() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.infos), func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Alloc, b.Alloc))
	})
}

// Changed returns a channel that is closed at the next change. Take it before List.
func (s *Registry) Changed() <-chan struct{} { return s.changed.C() }

// Reroot has the paths in all records follow a data directory that was moved while no task of it ran. A record that
// cannot be read stays as it is.
func Reroot(tx *kv.Tx, from, to string) error {
	var moved []*Info
	err := kv.All(tx, bucket,
		func(_ string, i *Info) error {
			for _, path := range []*string{&i.Socket, &i.HostBase, &i.TaskBase} {
				*path = hostfs.Reroot(*path, from, to)
			}
			moved = append(moved, i)
			return nil
		},
		func(string, error) error { return nil }) // Open says it
	if err != nil {
		return err
	}
	for _, i := range moved {
		if err := tx.Put(bucket, recordKey(i.Key()), *i); err != nil {
			return err
		}
	}
	return nil
}
