package partition

import "fmt"

// NodePool is a named part of the nodes: each node is in one, and in AllPool.
type NodePool struct {
	Name        string
	Description string
	CreateIndex uint64
	ModifyIndex uint64
	Meta        map[string]string `cbor:",omitempty"`
}

// The pools that every cluster has.
const (
	AllPool     = "all"     // of every node, beside its own
	DefaultPool = "default" // of who names none
)

// BuiltInNodePools are those that every cluster has.
func BuiltInNodePools() []*NodePool {
	return []*NodePool{
		{Name: AllPool, Description: "Node pool with all nodes in the cluster."},
		{Name: DefaultPool, Description: "Default node pool."},
	}
}

// Key is a pool's place in lists.
func (p *NodePool) Key() string { return p.Name }

// BuiltIn tells whether every cluster has the pool: it is never deleted.
func (p *NodePool) BuiltIn() bool { return p.Name == AllPool || p.Name == DefaultPool }

// Validate checks what somebody writes.
func (p *NodePool) Validate() error {
	problems := common(p.Name, p.Description, p.Meta)
	if p.Name == AllPool {
		problems = append(problems, "every node is in it, and nobody changes it; write another one")
	}
	return refuse(NodePoolKind, p.Name, problems)
}

// OfNode checks the pool that a node names.
func OfNode(name string) error {
	p := &NodePool{Name: name}
	if name == AllPool {
		return refuse(NodePoolKind, name, []string{fmt.Sprintf(
			"every node is in it without saying so; leave node_pool out for %q, or name another one", DefaultPool)})
	}
	return p.Validate()
}

// NodePoolKind is what a pool is called.
const NodePoolKind = "node pool"
