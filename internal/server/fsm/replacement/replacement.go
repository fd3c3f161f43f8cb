// Package replacement owns the command by which a person attests that a machine will not come back: all that depends on
// its boot is given up in one step. Packages of the server half may import it.
package replacement

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// schema is that of the cluster from which on nodes are replaced.
const schema = 5

func init() { fsm.Register[NodeReplace]("node-replace", schema, "server/endpoint/orphans") }

// NodeReplace is the word of a person that the boot of Old is dead, and that New does its work. Allocs of Old are lost,
// its claims end by that word, and what volumes live on it alone may be forgotten by force.
type NodeReplace struct {
	Old, New ids.Node
	Reason   string
	By       string // who vouches for it
}

// Replaced is the result of NodeReplace.
type Replaced struct {
	Allocs []ids.Alloc
	Claims []volume.ClaimKey
	Lost   []volume.ID // volumes that lived on the node alone
}

// Releases lets claims end when the disk is nearly full.
func (c *NodeReplace) Releases() bool { return true }

// Apply returns a *Replaced. A node that is not down is never declared dead.
func (c *NodeReplace) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	old, err := c.check(tx)
	if err != nil {
		return nil, err
	}
	out := &Replaced{}
	n := *old
	n.ReplacedBy, n.SchedulingEligibility = c.New, node.Ineligible
	n.Events = append(slices.Clone(old.Events), node.Event{
		Message:     fmt.Sprintf("Replaced by node %s: %s", ids.Short(c.New), c.Reason),
		Subsystem:   "Cluster",
		Timestamp:   st.Time,
		CreateIndex: st.Index,
	})
	tx.PutNode(&n)
	plan := &fsm.PlanApply{}
	for a := range tx.AllocsByNode(nil, c.Old) {
		if !a.ClientTerminal() {
			out.Allocs = append(out.Allocs, a.ID)
			plan.Stop = append(plan.Stop, fsm.AllocStop{
				Alloc:        a.ID,
				Description:  "its node was replaced: " + c.Reason,
				ClientStatus: alloc.ClientLost,
			})
		}
	}
	if _, err := plan.Apply(tx, st); err != nil {
		return nil, err
	}
	for _, cl := range slices.Collect(tx.ClaimsByNode(nil, c.Old)) {
		proof := &fsm.ClaimProof{
			Claim:  cl.Key(),
			Epoch:  cl.Epoch,
			Proof:  volume.ProofAttested,
			Reason: c.Reason,
			By:     c.By,
		}
		if _, err := proof.Apply(tx, st); err != nil {
			return nil, err
		}
		out.Claims = append(out.Claims, cl.Key())
	}
	for _, i := range slices.Collect(tx.InventoryOf(nil, c.Old)) {
		tx.DeleteInventoryEntry(c.Old, i.Entry.StagingKey) // mounts of a boot that is dead
		fsm.Settle(tx, st, i.Entry.StagingKey)             // what nobody claims held up who waits for the volume
	}
	if h := tx.InventoryHead(nil, c.Old); h != nil && len(h.Unknown) > 0 && tx.Understands(attaching.Schema) {
		none := *h // what had no name there stood in the way of volumes of other nodes, too
		none.Unknown = nil
		tx.PutInventoryHead(&none)
	}
	for v := range tx.Volumes(nil, wire.AllNamespaces, "") {
		if v.Status.HomeNode == c.Old {
			out.Lost = append(out.Lost, v.ID)
		}
	}
	return out, nil
}

func (c *NodeReplace) check(tx *state.Tx) (*node.Node, error) {
	refuse := func(k fault.Kind, text, hint string) error {
		return fault.WithHint(fault.New(k, "replace", fmt.Sprintf("node %q", c.Old), text), hint)
	}
	const list = `"berth node status" lists the nodes`
	old, by := tx.Node(nil, c.Old), tx.Node(nil, c.New)
	switch {
	case strings.TrimSpace(c.Reason) == "":
		return nil, refuse(fault.Invalid, "no reason is given", "say why it is certain that the machine is dead")
	case c.Old == c.New:
		return nil, refuse(fault.Invalid, "it cannot replace itself", "name the node that does its work")
	case old == nil:
		return nil, refuse(fault.NotFound, "there is no such node", list)
	case by == nil:
		return nil, refuse(fault.NotFound, fmt.Sprintf("there is no node %q that could replace it", c.New), list)
	case old.Status != node.StatusDown:
		return nil, refuse(fault.Conflict, fmt.Sprintf("it is %s, not down", old.Status),
			"a node that answers releases its volumes by itself: stop its allocations")
	case by.Status != node.StatusReady:
		return nil, refuse(fault.Conflict, fmt.Sprintf("node %s is %s, not ready", ids.Short(c.New), by.Status),
			"start the agent of the node that is to replace it")
	}
	return old, nil
}
