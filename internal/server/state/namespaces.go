package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/wire"
)

// Namespaces names the table of namespaces.
const Namespaces = "namespaces"

var namespaces = &table[wire.Namespace]{
	name: Namespaces,
	key:  func(n *wire.Namespace) Key { return KeyOf(n.Name) },
	stamp: func(now, old *wire.Namespace, index uint64) {
		now.CreateIndex, now.ModifyIndex = index, index
		if old != nil {
			now.CreateIndex = old.CreateIndex
		}
	},
	modified: func(n *wire.Namespace) uint64 { return n.ModifyIndex },
}

// Namespace returns a namespace, or nil.
func (s *Snap) Namespace(w *Watch, name ids.Namespace) *wire.Namespace {
	return namespaces.get(s, w, KeyOf(name))
}

// Namespaces yields all namespaces, by name.
func (s *Snap) Namespaces(w *Watch) iter.Seq[*wire.Namespace] { return namespaces.scan(s, w, "") }

// PutNamespace stores a namespace.
func (tx *Tx) PutNamespace(n *wire.Namespace) { namespaces.put(tx, n) }
