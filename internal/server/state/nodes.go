package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/node"
)

// Nodes names the table of nodes.
const Nodes = "nodes"

var nodes = &table[node.Node]{
	name: Nodes,
	key:  func(n *node.Node) Key { return KeyOf(n.ID) },
	stamp: func(now, old *node.Node, index uint64) {
		now.CreateIndex, now.ModifyIndex = index, index
		if old != nil {
			now.CreateIndex = old.CreateIndex
		}
	},
	modified: func(n *node.Node) uint64 { return n.ModifyIndex },
}

// Node returns a node, or nil.
func (s *Snap) Node(w *Watch, id ids.Node) *node.Node { return nodes.get(s, w, KeyOf(id)) }

// Nodes yields the nodes whose id begins with prefix, by id.
func (s *Snap) Nodes(w *Watch, prefix string) iter.Seq[*node.Node] {
	return nodes.scan(s, w, Key(prefix))
}

// PutNode stores a node.
func (tx *Tx) PutNode(n *node.Node) { nodes.put(tx, n) }

// DeleteNode forgets a node, and which agent start of it was the newest.
func (tx *Tx) DeleteNode(id ids.Node) bool {
	sessions.drop(tx, KeyOf(id))
	return nodes.drop(tx, KeyOf(id))
}
