package state

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-memdb"
)

// Store is the replicated state. Readers take snapshots; the FSM writes, one command at a time.
type Store struct {
	writing sync.Mutex
	now     atomic.Pointer[generation]
}

// generation is one life of the database: a restore begins another, and whoever watches the old one is woken.
type generation struct {
	db        *memdb.MemDB
	abandoned chan struct{}
	news      newsfeed
}

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.now.Store(newGeneration())
	return s
}

func newGeneration() *generation {
	schema := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	for _, t := range tables {
		schema.Tables[t.title()] = t.schema()
	}
	schema.Tables[nodeGroups.name] = nodeGroups.schema()
	db, err := memdb.NewMemDB(schema)
	must(err)
	return &generation{db: db, abandoned: make(chan struct{})}
}

// Snap is the state at one index. What its readers return is frozen: never change it, and copy what you want to change.
type Snap struct {
	txn *memdb.Txn
	gen *generation
}

// Snapshot returns the state as of the last command.
func (s *Store) Snapshot() *Snap {
	gen := s.now.Load()
	return &Snap{txn: gen.db.Txn(false), gen: gen}
}

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
	if w != nil {
		w.add(ch)
		w.add(s.gen.abandoned)
	}
}

// Index is the Raft index of the last command in the snapshot.
func (s *Snap) Index() uint64 { return s.applied(nil).Index }

// Stamp is that of the last command in the snapshot.
func (s *Snap) Stamp() Stamp { return s.applied(nil) }

// Stamp is the command's.
func (tx *Tx) Stamp() Stamp { return tx.stamp }

func (tx *Tx) touch(table string, deleted bool) {
	for i := range tx.touched {
		if tx.touched[i].table == table {
			tx.touched[i].deleted = tx.touched[i].deleted || deleted
			return
		}
	}
	tx.touched = append(tx.touched, touch{table, deleted})
}

// Write runs fn as one step at stamp. If fn fails nothing of it remains but the stamp: the state has seen the index.
func (s *Store) Write(stamp Stamp, fn func(tx *Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	gen := s.now.Load()
	if fn != nil {
		tx := &Tx{Snap: Snap{txn: gen.db.Txn(true), gen: gen}, stamp: stamp}
		err := runAborting(tx, fn)
		if err == nil {
			tx.finish()
			return nil
		}
		defer s.mark(gen, stamp)
		return err
	}
	s.mark(gen, stamp)
	return nil
}

// runAborting gives the transaction back when fn fails or panics.
func runAborting(tx *Tx, fn func(tx *Tx) error) error {
	done := false
	defer func() {
		if !done {
			tx.txn.Abort()
		}
	}()
	err := fn(tx)
	done = err == nil
	return err
}

func (tx *Tx) finish() {
	for _, t := range tx.touched {
		tx.bump(t)
	}
	tx.setApplied()
	tx.gen.news.add(tx.stamp.Index, tx.news)
	tx.txn.Commit()
	verifyFrozen(tx)
}

func (s *Store) mark(gen *generation, stamp Stamp) {
	tx := &Tx{Snap: Snap{txn: gen.db.Txn(true), gen: gen}, stamp: stamp}
	tx.finish()
}
