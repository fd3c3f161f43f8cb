package state

import (
	"context"
	"sync"
	"sync/atomic"

	"berth/internal/base/ids"
	"berth/internal/server/state/changes"
	"berth/internal/server/state/newsfeed"
	"berth/internal/server/state/radix"
)

// Store is the replicated state. Readers take snapshots; the FSM writes, one batch of commands at a time.
type Store struct {
	writing sync.Mutex
	now     atomic.Pointer[generation]
}

// generation is one life of the database: a restore begins another, and whoever watches the old one is woken.
type generation struct {
	trees     atomic.Pointer[radix.Forest]
	abandoned chan struct{}
	news      newsfeed.Feed[News]
	heard     newsfeed.News[News]     // memory for those of the transaction that is under way
	evals     newsfeed.Feed[ids.Eval] // that were written or forgotten
	changes   changes.Feed
}

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.now.Store(newGeneration())
	return s
}

func newGeneration() *generation {
	empty := radix.NewForest(trees)
	gen := &generation{abandoned: make(chan struct{})}
	gen.trees.Store(&empty)
	return gen
}

// Snap is the state at one index. What its readers return is frozen: never change it, and copy what you want to change.
type Snap struct {
	trees radix.Forest
	gen   *generation
	own   *radix.ForestTxn // of the transaction that reads; nil: it reads what is committed alone

	unfiled unfiled // of the transaction that reads; nil: there is none
}

// Snapshot returns the state as of the last command.
func (s *Store) Snapshot() *Snap { return s.now.Load().snapshot() }

func (gen *generation) snapshot() *Snap { return &Snap{trees: *gen.trees.Load(), gen: gen} }

// Changes is what is remembered of what the last commands changed. It is closed when the state is replaced.
func (s *Store) Changes() *changes.Feed { return &s.now.Load().changes }

// SnapshotAt waits until the state has reached index and returns it.
func (s *Store) SnapshotAt(ctx context.Context, index uint64) (*Snap, error) {
	for {
		snap, w := s.Snapshot(), NewWatch()
		if snap.applied(w).Index >= index {
			return snap, nil
		}
		if err := w.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Snap) watch(w *Watch, ch <-chan struct{}) {
	w.Add(ch)
	w.Add(s.gen.abandoned)
}

// Index is the Raft index of the last command in the snapshot.
func (s *Snap) Index() uint64 { return s.applied(nil).Index }

// Stamp is that of the last command in the snapshot.
func (s *Snap) Stamp() Stamp { return s.applied(nil) }
