// Package reports owns the command by which a node's report becomes one step of the state: what it says of its allocs
// and what it says of its volumes, which belong together. Only the endpoints of nodes import it.
package reports

import (
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// schema is the first one with this command.
const schema = 5

func init() { fsm.Register[NodeReport]("node-report", schema, "server/endpoint/nodes") }

// NodeReport takes over what a node says of its allocs, then what it says of its volumes: an alloc that has ended and
// whose volumes are released ends its claims in this one step, and the detach that follows is noted with it.
type NodeReport struct {
	Allocs    *fsm.AllocClientUpdate
	Inventory *fsm.InventoryApply
	// Executors would make the controller calls of the volumes that the report shows to be released.
	Executors []Executor
}

// Executor is the node that makes the next controller call of a volume.
type Executor struct {
	volume.StagingKey
	Node ids.Node
}

// NodeReported is the result of NodeReport.
type NodeReported struct {
	Evals     []ids.Eval
	Inventory *wire.InventoryReply
}

// Apply returns a *NodeReported.
func (c *NodeReport) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	evals, err := c.Allocs.Apply(tx, st)
	if err != nil {
		return nil, err
	}
	reply, err := c.Inventory.Apply(tx, st)
	if err != nil {
		return nil, err
	}
	for _, e := range c.Executors {
		if err := c.intend(tx, st, e); err != nil {
			return nil, err
		}
	}
	return &NodeReported{Evals: evals.([]ids.Eval), Inventory: reply.(*wire.InventoryReply)}, nil
}

// intend notes, before the call that the leader makes next, that a volume may have been detached.
func (c *NodeReport) intend(tx *state.Tx, st fsm.Stamp, e Executor) error {
	old := attaching.Ending(&tx.Snap, e.StagingKey, c.Inventory.Node)
	if old == nil {
		return nil
	}
	a := *old
	a.Presence = volume.Uncertain
	a.Detaching = true
	a.Executor = e.Node
	a.Tries = 0
	_, err := (&fsm.AttachmentPut{Attachment: &a, Seen: old.ModifyIndex}).Apply(tx, st)
	return err
}

// Releases lets volumes be released, and ends of tasks be recorded, when the disk is nearly full.
func (c *NodeReport) Releases() bool { return true }
