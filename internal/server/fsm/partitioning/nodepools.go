package partitioning

import (
	"fmt"
	"reflect"

	"berth/internal/base/fault"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/server/fsm"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
)

// NodePoolPut writes a node pool: a new one, or in place of the one of its name.
type NodePoolPut struct{ Pool *partition.NodePool }

// Apply returns the stored *partition.NodePool. One that is there already, word by word, stays as it is.
func (c *NodePoolPut) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	p := c.Pool
	if err := p.Validate(); err != nil {
		return nil, err
	}
	old := tx.NodePool(nil, p.Name)
	if old == nil && partitions.Full(&tx.Snap) {
		return nil, fault.WithHint(fault.New(fault.Invalid, "make", fmt.Sprintf("node pool %q", p.Name),
			fmt.Sprintf("there are %d already, which is the bound", partitions.MaxNodePools)), "delete some")
	}
	if old != nil {
		p.CreateIndex, p.ModifyIndex = old.CreateIndex, old.ModifyIndex
		if reflect.DeepEqual(old, p) {
			return old, nil
		}
	}
	tx.PutNodePool(p)
	return p, nil
}

// NodePoolDelete removes a node pool that no node, no job and no namespace names.
type NodePoolDelete struct{ Name string }

// Apply returns nil.
func (c *NodePoolDelete) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	p := tx.NodePool(nil, c.Name)
	subject := fmt.Sprintf("node pool %q", c.Name)
	switch {
	case p == nil:
		return nil, fault.New(fault.NotFound, "", "", "node pool not found")
	case p.BuiltIn():
		return nil, fault.New(fault.Invalid, "delete", subject, "every cluster has it")
	}
	refuse := func(what string, names []string, hint string) (any, error) {
		return nil, fault.WithHint(fault.New(fault.Busy, "delete", subject,
			fmt.Sprintf("it has %s: %s", what, partitions.Names(names))), hint)
	}
	var nodes, spaces []string
	for n := range tx.Nodes(nil, "") {
		if node.PoolOf(n.NodePool) == c.Name {
			nodes = append(nodes, n.Name)
		}
	}
	for n := range tx.Namespaces(nil, "") {
		if n.Pools != nil && n.Pools.Default == c.Name {
			spaces = append(spaces, string(n.Name))
		}
	}
	jobs := jobsIn(&tx.Snap, c.Name)
	switch {
	case len(nodes) > 0:
		return refuse("nodes", nodes, "give them another node_pool in their agents' configuration; nodes that are "+
			"gone for good are forgotten a day after they went down")
	case len(jobs) > 0:
		return refuse("non-terminal jobs", jobs, "stop them, or give them another node_pool: berth job stop "+jobs[0])
	case len(spaces) > 0:
		return refuse("namespaces whose default it is", spaces, "give them another default node pool: "+
			"berth namespace apply -default-node-pool default "+spaces[0])
	}
	tx.DeleteNodePool(c.Name)
	return nil, nil
}

// Releases is true: it takes something away.
func (c *NodePoolDelete) Releases() bool { return true }
