package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/partition"
)

// Names of the tables of what divides a cluster.
const (
	Namespaces = "namespaces"
	NodePools  = "node-pools"
)

var namespaces = &table[partition.Namespace]{
	name:     Namespaces,
	key:      func(n *partition.Namespace) Key { return KeyOf(n.Name) },
	stamp:    stamping(func(n *partition.Namespace) (_, _ *uint64) { return &n.CreateIndex, &n.ModifyIndex }),
	modified: func(n *partition.Namespace) uint64 { return n.ModifyIndex },
}

var nodePools = &table[partition.NodePool]{
	name:     NodePools,
	key:      func(p *partition.NodePool) Key { return KeyOf(p.Name) },
	stamp:    stamping(func(p *partition.NodePool) (_, _ *uint64) { return &p.CreateIndex, &p.ModifyIndex }),
	modified: func(p *partition.NodePool) uint64 { return p.ModifyIndex },
}

// Namespace returns a namespace, or nil.
func (s *Snap) Namespace(w *Watch, name ids.Namespace) *partition.Namespace {
	return namespaces.get(s, w, KeyOf(name))
}

// Namespaces yields the namespaces whose names begin with prefix, by name.
func (s *Snap) Namespaces(w *Watch, prefix string) iter.Seq[*partition.Namespace] {
	return namespaces.scan(s, w, Key(prefix))
}

// PutNamespace stores a namespace.
func (tx *Tx) PutNamespace(n *partition.Namespace) { namespaces.put(tx, n) }

// DeleteNamespace removes a namespace and tells whether it was there.
func (tx *Tx) DeleteNamespace(name ids.Namespace) bool { return namespaces.drop(tx, KeyOf(name)) }

// NodePool returns a node pool, or nil. A cluster below the schema of partitions has none stored.
func (s *Snap) NodePool(w *Watch, name string) *partition.NodePool {
	return nodePools.get(s, w, KeyOf(name))
}

// NodePools yields the node pools whose names begin with prefix, by name.
func (s *Snap) NodePools(w *Watch, prefix string) iter.Seq[*partition.NodePool] {
	return nodePools.scan(s, w, Key(prefix))
}

// PutNodePool stores a node pool.
func (tx *Tx) PutNodePool(p *partition.NodePool) { nodePools.put(tx, p) }

// DeleteNodePool removes a node pool and tells whether it was there.
func (tx *Tx) DeleteNodePool(name string) bool { return nodePools.drop(tx, KeyOf(name)) }
