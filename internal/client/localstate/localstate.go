// Package localstate owns what the client half remembers on disk: who it is, the highest index it has seen, its allocs
// and their tasks with their handles. Everything is written before it is relied on. Only package client and its runners
// import it; keepers of the node keep their own buckets in the same store.
package localstate

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/port/driver"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

// Codec of the store: the one canonical form, read strictly.
var Codec = kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict}

const (
	bucketMeta   = "client-meta"
	bucketAllocs = "client-allocs"
	bucketTasks  = "client-tasks"
	keyIdentity  = "identity"
	keySeen      = "seen"
	keyHome      = "home"
)

// Alloc is what is remembered of an allocation.
type Alloc struct {
	Bundle alloc.Bundle
	// Waited is how long it waited for its storage so far.
	Waited time.Duration
	// Refused holds the final refusal of a hook before the first task.
	Refused string
	// RefusedForStorage: the refusal is for the sake of storage.
	RefusedForStorage bool `cbor:",omitempty"`
	// Stopped: the agent itself decided that it ends (its servers no longer know it, or a dev agent stops).
	Stopped string
	// Released: the hooks after the last task have succeeded. The alloc is complete or failed.
	Released bool
	// Earlier versions recorded when the node began and what it held of the alloc's health. It is read, so that their
	// stores are, and means nothing.
	OldBegun     *time.Time `cbor:"Begun,omitempty"`
	OldHealthy   *bool      `cbor:"Healthy,omitempty"`
	OldHealthyAt *time.Time `cbor:"HealthyAt,omitempty"`
	// Received is the last state of the servers that knew the alloc. Only a state that continues it can say by its
	// silence that the alloc was removed.
	Received lineage.Point
	// Suspended says why the servers let nothing be begun with a volume of it; empty: they do.
	Suspended string
	// Began is when its first task started; kept where it may not run for ever.
	Began time.Time `cbor:",omitzero"`
	// Orphan says since when and why nobody decides about the alloc: it is kept, and neither started nor restarted.
	Orphan *Orphan
}

// Orphan is an alloc that the servers' state does not know and never removed.
type Orphan struct {
	Reason string
	Since  time.Time
}

// Task is what is remembered of a task.
type Task struct {
	State   alloc.TaskState
	Handle  *driver.TaskHandle // nil: proven that no process is left
	Exit    *driver.ExitResult // how the process of the handle ended, as long as what it left behind is being ended
	Attempt int                // starts so far
	Memory  alloc.RestartMemory
	Started bool // a process of it ran at least once
	// Again: all tasks of the alloc are to run anew, and this one has not started since.
	Again bool `cbor:",omitempty"`
	// Starting: the start of this attempt was begun and its end is not known.
	Starting bool
	// Over: it will not start again; State.Failed says how it ended.
	Over bool
	// NotBefore is when it may start again.
	NotBefore time.Time
	// OOMKills is how many processes of the present attempt were killed for the memory limit, as far as an event said.
	OOMKills int64 `cbor:",omitempty"`
	// MemoryCapMB is the memory limit of the present attempt, if the node's cap made it smaller than the job asks.
	MemoryCapMB int64 `cbor:",omitempty"`
}

// Store is the open file.
type Store struct {
	KV  *kv.Store
	dir string
}

// Open opens the store beneath dir. A damaged file is refused loudly: the tasks that it knew may still run.
func Open(dir string) (*Store, error) {
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make directory", dir)
	}
	path := filepath.Join(dir, "client.db")
	s, err := kv.Open(path, Codec)
	if err != nil {
		return nil, mayBeDamaged(err)
	}
	return &Store{KV: s, dir: dir}, nil
}

// mayBeDamaged says what is to be done if the store is.
func mayBeDamaged(err error) error {
	if !fault.Has(err, fault.Internal) {
		return err
	}
	return fault.WithHint(err, "the store may be damaged; nothing was started or stopped. "+
		"Tasks that ran go on running. Restore the file from a copy; or, while tasks run, move it away alone and "+
		"start the agent: it goes on as the same node, and lists what runs as orphans (docs/orphans.md)")
}

// Check reads what a store beneath dir remembers, and changes nothing. others names the damaged records that are of no
// alloc.
func Check(dir string) (l *Loaded, others []error, err error) {
	path := filepath.Join(dir, "client.db")
	s, err := kv.OpenToRead(path, Codec)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if l, err = (&Store{KV: s, dir: dir}).Load(); err != nil {
		return nil, nil, err
	}
	damaged, err := s.Damaged()
	for _, d := range damaged {
		if d.Bucket != bucketAllocs && d.Bucket != bucketTasks {
			others = append(others, fault.Wrap(d.Err, fault.Internal, "check store", path))
		}
	}
	return l, others, err
}

// own reads a record of the node itself. An agent that did not know what it says would not start.
func (s *Store) own(key string, v any) (known bool, err error) {
	err = s.KV.View(func(tx *kv.Tx) error {
		known, err = tx.Get(bucketMeta, key, v)
		return err
	})
	return known, s.unreadable(err)
}

func (s *Store) unreadable(err error) error {
	return mayBeDamaged(fault.Wrap(err, fault.Internal, "read store", filepath.Join(s.dir, "client.db")))
}

// Close closes the file.
func (s *Store) Close() error { return s.KV.Close() }

// Seen returns the highest state of the servers that this node acted on.
func (s *Store) Seen() (lineage.Point, error) {
	var seen lineage.Point
	_, err := s.own(keySeen, &seen)
	return seen, err
}

// Home returns the directory that the store's records are about; empty: none is noted.
func (s *Store) Home() (string, error) {
	var home string
	_, err := s.own(keyHome, &home)
	return home, err
}

// PutHome remembers the directory that the store's records are about, unless it is known; moved, if any, has the paths
// in them follow it in the same step.
func (s *Store) PutHome(dir string, moved func(*kv.Tx) error) error {
	if home, err := s.Home(); err != nil || home == dir {
		return err
	}
	return s.KV.Update(func(tx *kv.Tx) error {
		if moved != nil {
			if err := moved(tx); err != nil {
				return err
			}
		}
		return tx.Put(bucketMeta, keyHome, dir)
	})
}

// PutSeen remembers a state of the servers together with the allocs that it changed.
func (s *Store) PutSeen(seen lineage.Point, changed []*Alloc) error {
	return s.KV.Update(func(tx *kv.Tx) error { return putSeen(tx, seen, changed) })
}

func putSeen(tx *kv.Tx, seen lineage.Point, changed []*Alloc) error {
	for _, a := range changed {
		if err := tx.Put(bucketAllocs, string(a.Bundle.Alloc.ID), a); err != nil {
			return err
		}
	}
	return tx.Put(bucketMeta, keySeen, seen)
}

// PutAlloc remembers an alloc.
func (s *Store) PutAlloc(a *Alloc) error {
	return s.KV.Update(func(tx *kv.Tx) error { return tx.Put(bucketAllocs, string(a.Bundle.Alloc.ID), a) })
}

// PutTask remembers a task.
func (s *Store) PutTask(id ids.Alloc, task string, t *Task) error {
	return s.KV.Update(func(tx *kv.Tx) error { return tx.Put(bucketTasks, taskKey(id, task), t) })
}

// Forget drops an alloc and its tasks.
func (s *Store) Forget(id ids.Alloc) error {
	return s.KV.Update(func(tx *kv.Tx) error {
		for _, k := range tx.Keys(bucketTasks) {
			if len(k) > len(id) && k[:len(id)] == string(id) {
				if err := tx.Delete(bucketTasks, k); err != nil {
					return err
				}
			}
		}
		if err := tx.Delete(bucketMarks, string(id)); err != nil {
			return err
		}
		return tx.Delete(bucketAllocs, string(id))
	})
}

func taskKey(id ids.Alloc, task string) string { return string(id) + "/" + task }

// Loaded is everything that was remembered.
type Loaded struct {
	Allocs map[ids.Alloc]*Alloc
	Tasks  map[ids.Alloc]map[string]*Task
	// Damaged holds, by alloc, the records that can't be read. Such an alloc is neither started nor stopped nor
	// forgotten.
	Damaged map[ids.Alloc]error
	// Marks are what the runs of the agent before have left of those that died.
	Marks map[ids.Alloc]Mark
}

// Load reads all allocs and tasks.
func (s *Store) Load() (*Loaded, error) {
	l := &Loaded{
		Allocs:  map[ids.Alloc]*Alloc{},
		Tasks:   map[ids.Alloc]map[string]*Task{},
		Damaged: map[ids.Alloc]error{},
	}
	err := s.KV.View(func(tx *kv.Tx) (err error) {
		if l.Marks, err = loadMarks(tx); err != nil {
			return err
		}
		err = kv.All(tx, bucketAllocs, func(key string, a *Alloc) error {
			if a.Bundle.Alloc == nil || a.Bundle.Job == nil || string(a.Bundle.Alloc.ID) != key {
				return l.damaged(key, fmt.Errorf("record %s is not of this allocation", key))
			}
			l.Allocs[ids.Alloc(key)] = a
			return nil
		}, l.damaged)
		if err != nil {
			return err
		}
		return kv.All(tx, bucketTasks, func(key string, t *Task) error {
			id, task := splitTaskKey(key)
			if l.Tasks[id] == nil {
				l.Tasks[id] = map[string]*Task{}
			}
			l.Tasks[id][task] = t
			return nil
		}, l.damaged)
	})
	if err != nil {
		return nil, err
	}
	for id := range l.Damaged {
		delete(l.Allocs, id)
	}
	return l, nil
}

func (l *Loaded) damaged(key string, err error) error {
	id, _ := splitTaskKey(key)
	l.Damaged[id] = fault.WithHint(fault.Wrap(err, fault.Internal, "restore", fmt.Sprintf("allocation %q", id)),
		"its tasks go on running and are neither started anew nor reported as ended")
	return nil
}

func splitTaskKey(key string) (ids.Alloc, string) {
	for i := range len(key) {
		if key[i] == '/' {
			return ids.Alloc(key[:i]), key[i+1:]
		}
	}
	return ids.Alloc(key), ""
}
