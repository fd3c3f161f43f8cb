package state

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"berth/internal/server/state/changes"
	"berth/internal/server/state/radix"
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
	// news tells what storage keepers are to look at when an object is written or removed; nil: nothing.
	news func(*Tx, *T)

	first int // of its trees
}

// index files an object under further keys, not unique.
type index[T any] struct {
	name string
	key  func(*T) Key   // the only one; empty: the object is left out
	keys func(*T) []Key // in the place of key, for objects with several
}

// one makes an index of a function with a single key; an empty key leaves the object out.
func one[T any](name string, key func(*T) Key) index[T] { return index[T]{name: name, key: key} }

// those makes an index of the objects of which something is true, all of them under its name.
func those[T any](name string, is func(*T) bool) index[T] {
	key := KeyOf(name)
	return one(name, func(o *T) Key {
		if !is(o) {
			return ""
		}
		return key
	})
}

// of is what a function makes of an object; of none nothing.
func of[T, K any](function func(*T) K, o *T) (out K) {
	if o != nil {
		out = function(o)
	}
	return out
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
	title() string
	place(first int) (next int)
	each(s *Snap) iter.Seq[any]
	restore(w *radix.ForestTxn, raw []byte) error
	watchNews(s *Snap, w *Watch)
}

// trees is how many a state has: one for each table and each index.
var trees = func() (n int) {
	for _, t := range append([]tableDef{nodeGroups, standings}, tables...) {
		n = t.place(n)
	}
	return n
}()

const primary = "id"

func (t *table[T]) title() string { return t.name }

// place gives the table its trees, its own first and then those of its indexes.
func (t *table[T]) place(first int) (next int) {
	t.first = first
	return first + 1 + len(t.indexes)
}

// tree is the one of an index.
func (t *table[T]) tree(name string) int {
	if name == primary {
		return t.first
	}
	at := slices.IndexFunc(t.indexes, func(i index[T]) bool { return i.name == name })
	if at < 0 {
		panic(fmt.Sprintf("state: table %s has no index %q", t.name, name))
	}
	return t.first + 1 + at
}

func (t *table[T]) get(s *Snap, w *Watch, key Key) *T {
	tree := s.trees[t.first]
	if w != nil {
		s.watch(w, tree.Watch(string(key)))
	}
	if x := s.own.Written(t.first); x != nil {
		tree = x.Newest()
	}
	o, _ := tree.Get(string(key)).(*T)
	return o
}

// scan yields the objects whose primary key begins with prefix, in key order.
func (t *table[T]) scan(s *Snap, w *Watch, prefix Key) iter.Seq[*T] {
	return t.iterate(s, w, primary, prefix)
}

// scanFrom yields those of scan whose key is not below from, without passing by the others. The watch sees all of scan.
func (t *table[T]) scanFrom(s *Snap, w *Watch, prefix, from Key) iter.Seq[*T] {
	if w != nil {
		s.watch(w, s.trees[t.first].WatchPrefix(string(prefix)))
	}
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
	return t.iterate(s, w, index, key)
}

// since yields the objects whose key in an ordered index is not below from.
func (t *table[T]) since(s *Snap, index string, from Key) iter.Seq[*T] {
	at := t.tree(index)
	tree := s.trees[at]
	if x := s.own.Written(at); x != nil {
		tree = x.Tree()
	}
	return radix.From[T](tree, string(from))
}

func (t *table[T]) iterate(s *Snap, w *Watch, index string, prefix Key) iter.Seq[*T] {
	at := t.tree(index)
	if w != nil {
		s.watch(w, s.trees[at].WatchPrefix(string(prefix)))
	}
	if x := s.own.Written(at); x != nil {
		return radix.BelowNow[T](x, string(prefix))
	}
	return radix.Below[T](s.trees[at], string(prefix))
}

// put files an object, which the store owns from here on, and returns the one whose place it takes, or nil.
func (t *table[T]) put(tx *Tx, o *T) (old *T) {
	key := t.key(o)
	old = t.get(&tx.Snap, nil, key)
	if t.stamp != nil {
		t.stamp(o, old, tx.stamp.Index)
	}
	t.file(tx.own, string(key), old, o)
	tx.touch(t.name, false)
	changes.Note(&tx.changes, t.name, string(key), old, o)
	t.tell(tx, old)
	t.tell(tx, o)
	freeze(tx, o)
	return old
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
func (t *table[T]) insert(w *radix.ForestTxn, o *T) {
	key := string(t.key(o))
	old, _ := w.Write(t.first).Newest().Get(key).(*T)
	t.file(w, key, old, o)
}

// file files an object under its key, where another one was, or nil, and in all indexes.
func (t *table[T]) file(w *radix.ForestTxn, key string, old, o *T) {
	w.Write(t.first).Put(key, o)
	for i := range t.indexes {
		t.refile(w, i, key, old, o)
	}
}

func (t *table[T]) remove(w *radix.ForestTxn, o *T) {
	key := string(t.key(o))
	w.Write(t.first).Delete(key)
	for i := range t.indexes {
		t.refile(w, i, key, o, nil)
	}
}

// refile files an object under its keys in an index, and no more under those that it had; nil: it was not there, or is
// no more.
func (t *table[T]) refile(w *radix.ForestTxn, index int, key string, old, now *T) {
	by, tree := &t.indexes[index], t.first+1+index
	if by.keys == nil {
		before, after := of(by.key, old), of(by.key, now)
		if before != "" && before != after {
			w.Write(tree).Delete(string(before) + key)
		}
		if after != "" {
			w.Write(tree).PutUnder(string(after), key, now)
		}
		return
	}
	before, after := of(by.keys, old), of(by.keys, now)
	for _, k := range before {
		if !slices.Contains(after, k) {
			w.Write(tree).Delete(string(k) + key)
		}
	}
	for _, k := range after {
		w.Write(tree).PutUnder(string(k), key, now)
	}
}

func (t *table[T]) tell(tx *Tx, o *T) {
	if t.news != nil && o != nil {
		t.news(tx, o)
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

func (t *table[T]) restore(w *radix.ForestTxn, raw []byte) error {
	o := new(T)
	if err := wire.DecodeStrict(raw, o); err != nil {
		return fmt.Errorf("table %s: %w", t.name, err)
	}
	t.insert(w, o)
	return nil
}
