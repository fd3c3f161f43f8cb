package state

import (
	"fmt"
	"iter"
	"strings"

	"github.com/hashicorp/go-memdb"

	"berth/internal/server/state/changes"
	"berth/internal/wire"
)

// table describes how objects of one type are filed. Objects are frozen once they are put: readers share the pointers.
type table[T any] struct {
	name    string
	key     func(*T) Key
	indexes []index[T]
	// stamp fills the create and modify index of an object that is being put; old is what it replaces, or nil.
	stamp func(now, old *T, index uint64)
	// modified reads the modify index.
	modified func(*T) uint64
	// news says what storage keepers are to look at when an object is written or removed; nil: nothing.
	news func(*T) []News
}

// index files an object under further keys, not unique.
type index[T any] struct {
	name string
	keys func(*T) []Key
}

// one makes an index of a function with a single key; an empty key leaves the object out.
func one[T any](name string, key func(*T) Key) index[T] {
	return index[T]{name: name, keys: func(o *T) []Key {
		k := key(o)
		if k == "" {
			return nil
		}
		return []Key{k}
	}}
}

// stamping makes the stamp of a table whose objects have their indexes in two fields.
func stamping[T any](indexes func(*T) (created, modified *uint64)) func(now, old *T, index uint64) {
	return func(now, old *T, index uint64) {
		created, modified := indexes(now)
		*created, *modified = index, index
		if old != nil {
			was, _ := indexes(old)
			*created = *was
		}
	}
}

// tableDef is what the store needs of a table without knowing its type.
type tableDef interface {
	schema() *memdb.TableSchema
	title() string
	each(s *Snap) iter.Seq[any]
	restore(txn *memdb.Txn, raw []byte) error
	watchNews(s *Snap, w *Watch)
}

const primary = "id"

func (t *table[T]) title() string { return t.name }

func (t *table[T]) schema() *memdb.TableSchema {
	s := &memdb.TableSchema{Name: t.name, Indexes: map[string]*memdb.IndexSchema{
		primary: {Name: primary, Unique: true, Indexer: primaryIndexer[T]{t.key}},
	}}
	for _, i := range t.indexes {
		s.Indexes[i.name] = &memdb.IndexSchema{Name: i.name, AllowMissing: true, Indexer: multiIndexer[T]{i.keys}}
	}
	return s
}

func (t *table[T]) get(s *Snap, w *Watch, key Key) *T {
	if s.own != nil {
		if raw, written := s.own.objects[t.name][key]; written {
			o, _ := raw.(*T)
			return o
		}
	}
	ch, raw, err := s.txn.FirstWatch(t.name, primary, key)
	must(err)
	s.watch(w, ch)
	o, _ := raw.(*T)
	return o
}

// scan yields the objects whose primary key begins with prefix, in key order.
func (t *table[T]) scan(s *Snap, w *Watch, prefix Key) iter.Seq[*T] {
	return t.iterate(s, w, primary+"_prefix", prefix)
}

// scanFrom yields those of scan whose key is not below from, without passing by the others. The watch sees all of scan.
func (t *table[T]) scanFrom(s *Snap, w *Watch, prefix, from Key) iter.Seq[*T] {
	all, err := s.engine(t.name).Get(t.name, primary+"_prefix", prefix)
	must(err)
	s.watch(w, all.WatchCh())
	return func(yield func(*T) bool) {
		for o := range t.since(s, primary, max(prefix, from)) {
			if !strings.HasPrefix(string(t.key(o)), string(prefix)) || !yield(o) {
				return
			}
		}
	}
}

// find yields the objects that are filed under key in an index, ordered by primary key.
func (t *table[T]) find(s *Snap, w *Watch, index string, key Key) iter.Seq[*T] {
	return t.iterate(s, w, index+"_prefix", key)
}

// since yields the objects whose key in an ordered index is not below from.
func (t *table[T]) since(s *Snap, index string, from Key) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		it, err := s.engine(t.name).LowerBound(t.name, index, from)
		must(err)
		for raw := it.Next(); raw != nil; raw = it.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}

func (t *table[T]) iterate(s *Snap, w *Watch, index string, prefix Key) iter.Seq[*T] {
	it, err := s.engine(t.name).Get(t.name, index, prefix)
	must(err)
	s.watch(w, it.WatchCh())
	used := false
	return func(yield func(*T) bool) {
		if used { // an iterator of the engine runs once; a second range starts anew
			it, err = s.engine(t.name).Get(t.name, index, prefix)
			must(err)
		}
		used = true
		for raw := it.Next(); raw != nil; raw = it.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}

// put files an object, which the store owns from here on.
func (t *table[T]) put(tx *Tx, o *T) {
	old := t.get(&tx.Snap, nil, t.key(o))
	if t.stamp != nil {
		t.stamp(o, old, tx.stamp.Index)
	}
	t.insert(tx.own, o)
	tx.touch(t.name, false)
	changes.Note(&tx.changes, t.name, string(t.key(o)), old, o)
	t.tell(tx, old)
	t.tell(tx, o)
	freeze(tx, o)
}

// drop removes an object and tells whether it was there.
func (t *table[T]) drop(tx *Tx, key Key) bool {
	old := t.get(&tx.Snap, nil, key)
	if old == nil {
		return false
	}
	t.remove(tx.own, old)
	tx.touch(t.name, true)
	changes.Note(&tx.changes, t.name, string(key), old, nil)
	t.tell(tx, old)
	return true
}

// insert files an object and notes nothing else.
func (t *table[T]) insert(w *writes, o *T) {
	w.note(t.name, t.key(o), o)
	must(w.txn.Insert(t.name, o))
}

func (t *table[T]) remove(w *writes, o *T) {
	w.note(t.name, t.key(o), nil)
	must(w.txn.Delete(t.name, o))
}

func (t *table[T]) tell(tx *Tx, o *T) {
	if t.news != nil && o != nil {
		tx.tell(t.news(o))
	}
}

func (t *table[T]) watchNews(s *Snap, w *Watch) {
	if t.news != nil {
		t.scan(s, w, "")
	}
}

func (t *table[T]) each(s *Snap) iter.Seq[any] {
	return func(yield func(any) bool) {
		for o := range t.scan(s, nil, "") {
			if !yield(o) {
				return
			}
		}
	}
}

func (t *table[T]) restore(txn *memdb.Txn, raw []byte) error {
	o := new(T)
	if err := wire.DecodeStrict(raw, o); err != nil {
		return fmt.Errorf("table %s: %w", t.name, err)
	}
	return txn.Insert(t.name, o)
}

// must turns what only a defect of this package can cause (an unknown table or index) into a panic.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("state: %s", err))
	}
}

type primaryIndexer[T any] struct{ key func(*T) Key }

// FromArgs takes a ready Key.
func (primaryIndexer[T]) FromArgs(args ...any) ([]byte, error) { return keyArg(args) }

// PrefixFromArgs takes a ready Key.
func (primaryIndexer[T]) PrefixFromArgs(args ...any) ([]byte, error) { return keyArg(args) }

// FromObject computes the key.
func (p primaryIndexer[T]) FromObject(raw any) (bool, []byte, error) {
	return true, []byte(p.key(raw.(*T))), nil
}

type multiIndexer[T any] struct{ keys func(*T) []Key }

// FromArgs takes a ready Key.
func (multiIndexer[T]) FromArgs(args ...any) ([]byte, error) { return keyArg(args) }

// PrefixFromArgs takes a ready Key.
func (multiIndexer[T]) PrefixFromArgs(args ...any) ([]byte, error) { return keyArg(args) }

// FromObject computes the keys.
func (m multiIndexer[T]) FromObject(raw any) (bool, [][]byte, error) {
	keys := m.keys(raw.(*T))
	out := make([][]byte, len(keys))
	for i, k := range keys {
		out[i] = []byte(k)
	}
	return len(out) > 0, out, nil
}

func keyArg(args []any) ([]byte, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("want one key, got %d arguments", len(args))
	}
	k, ok := args[0].(Key)
	if !ok {
		return nil, fmt.Errorf("want a Key, got %T", args[0])
	}
	return []byte(k), nil
}
