package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/node"
)

// Nodes names the table of nodes.
const Nodes = "nodes"

// byGroup files nodes by pool, datacenter and whether they take new allocs.
const byGroup = "group"

var nodes = &table[node.Node]{
	name:     Nodes,
	key:      func(n *node.Node) Key { return KeyOf(n.ID) },
	indexes:  []index[node.Node]{one(byGroup, func(n *node.Node) Key { return groupKey(n.Group()) })},
	stamp:    stamping(func(o *node.Node) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(n *node.Node) uint64 { return n.ModifyIndex },
}

// nodeGroups counts the nodes of each group, so that nobody has to. It follows from the table of nodes, and is in no
// snapshot.
var nodeGroups = &table[node.GroupSize]{
	name: "node-groups",
	key:  func(g *node.GroupSize) Key { return groupKey(g.Group) },
}

func groupKey(g node.Group) Key {
	ready := "no"
	if g.Ready {
		ready = "yes"
	}
	return KeyOf(g.Pool).With(g.Datacenter).With(ready)
}

// Node returns a node, or nil.
func (s *Snap) Node(w *Watch, id ids.Node) *node.Node { return nodes.get(s, w, KeyOf(id)) }

// Nodes yields the nodes whose id begins with prefix, by id.
func (s *Snap) Nodes(w *Watch, prefix string) iter.Seq[*node.Node] {
	return nodes.scan(s, w, Key(prefix))
}

// NodeGroups yields the groups that have nodes, by pool and datacenter.
func (s *Snap) NodeGroups() iter.Seq[*node.GroupSize] { return nodeGroups.scan(s, nil, "") }

// NodesOf yields the nodes of a group whose id is not below from, by id.
func (s *Snap) NodesOf(g node.Group, from ids.Node) iter.Seq[*node.Node] {
	return func(yield func(*node.Node) bool) {
		for n := range nodes.since(s, byGroup, groupKey(g).With(string(from))) {
			if n.Group() != g || !yield(n) {
				return
			}
		}
	}
}

// PutNode stores a node.
func (tx *Tx) PutNode(n *node.Node) {
	old := tx.Node(nil, n.ID)
	nodes.put(tx, n)
	if old == nil || old.Group() != n.Group() {
		regroup(&tx.Snap, old, -1)
		regroup(&tx.Snap, n, 1)
	}
}

// DeleteNode forgets a node. Which agent start of it was the newest stays.
func (tx *Tx) DeleteNode(id ids.Node) bool {
	regroup(&tx.Snap, tx.Node(nil, id), -1)
	return nodes.drop(tx, KeyOf(id))
}

// regroup counts a node (nil: none) in or out of its group.
func regroup(s *Snap, n *node.Node, by int) {
	if n == nil {
		return
	}
	next := &node.GroupSize{Group: n.Group(), Nodes: by}
	old := nodeGroups.get(s, nil, groupKey(next.Group))
	if old != nil {
		next.Nodes += old.Nodes
	}
	if next.Nodes == 0 {
		nodeGroups.remove(s.own, old)
		return
	}
	nodeGroups.insert(s.own, next)
}
