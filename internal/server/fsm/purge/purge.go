// Package purge owns the command by which a person has a node forgotten that will not come back. Only packages of the
// server import it.
package purge

import (
	"fmt"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/holders"
	"berth/internal/server/mounts"
	"berth/internal/server/state"
)

func init() { fsm.Register[NodePurge]("node-purge", state.RemembersNodes, "server/endpoint/nodes") }

// NodePurge forgets a node that is down and holds no volume. Its allocs become lost. The chain of its agent starts and
// its key stay: should it come back, it is the same node, and no other one can be it.
type NodePurge struct {
	Node ids.Node
	Seed string
}

// Releases lets it through when the disk is nearly full, because it frees space.
func (c *NodePurge) Releases() bool { return true }

// Apply returns a *fsm.NodeChanged.
func (c *NodePurge) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	n := tx.Node(nil, c.Node)
	if err := refused(&tx.Snap, c.Node, n); err != nil {
		return nil, err
	}
	out := &fsm.NodeChanged{ModifyIndex: st.Index}
	plan := &fsm.PlanApply{}
	for a := range tx.AllocsByNode(nil, c.Node) {
		if a.ClientTerminal() {
			continue
		}
		plan.Stop = append(plan.Stop, fsm.AllocStop{
			Alloc:        a.ID,
			Description:  "its node was purged",
			ClientStatus: alloc.ClientLost,
		})
		j := tx.Job(nil, a.Namespace, a.Job)
		if j.Stopped() {
			continue
		}
		e := fsm.NewEval(c.Seed, eval.TriggerNodeUpdate, j)
		e.ID = ids.Eval(ids.Derived(c.Seed, string(j.Namespace), string(j.ID), string(c.Node)))
		if !slices.Contains(out.Evals, e.ID) {
			out.Evals = append(out.Evals, e.ID)
			plan.Evals = append(plan.Evals, e)
		}
	}
	if _, err := plan.Apply(tx, st); err != nil {
		return nil, err
	}
	last := tx.Session(nil, c.Node)
	tx.DeleteNode(c.Node)
	tx.DeleteInventory(c.Node)
	keep(tx, st, last)
	fsm.PromoteQueued(tx, st) // it is awaited no more
	return out, nil
}

const (
	// keptFor is how long the chain of a purged node's agent starts stays.
	keptFor = 90 * 24 * time.Hour
	// maxKept bounds them; the oldest go.
	maxKept = 10_000
)

// keep lets the chain of a purged node's agent starts stay for a while, and forgets those that have stayed long enough.
func keep(tx *state.Tx, st fsm.Stamp, last *node.Session) {
	if last != nil {
		n := *last
		n.Standing.Purged = st.Time
		tx.PutSession(&n)
	}
	var kept []*node.Session
	for s := range tx.Sessions(nil) {
		if !s.Standing.Purged.IsZero() {
			kept = append(kept, s)
		}
	}
	slices.SortStableFunc(kept, func(a, b *node.Session) int { return b.Standing.Purged.Compare(a.Standing.Purged) })
	for i, s := range kept {
		if i >= maxKept || st.Time.Sub(s.Standing.Purged) > keptFor {
			tx.DeleteSession(s.Node)
		}
	}
}

// refused says why a node is not purged, with the way out; nil: it is.
func refused(s *state.Snap, id ids.Node, n *node.Node) error {
	refuse := func(k fault.Kind, text, hint string) error {
		return fault.WithHint(fault.New(k, "purge", fmt.Sprintf("node %q", id), text), hint)
	}
	if n == nil {
		return refuse(fault.NotFound, "node not found", `"berth node status" lists the nodes`)
	}
	if n.Status != node.StatusDown {
		return refuse(fault.Conflict, fmt.Sprintf("it is %s, not down", n.Status),
			"stop its agent, and wait until it counts as down")
	}
	for c := range s.ClaimsByNode(nil, id) {
		return refuse(fault.Conflict, fmt.Sprintf("volume %s is not proven released: %s", c.Volume,
			volume.DescribeClaim(c)), holders.DeadNode(c.Volume, id))
	}
	for a := range s.AttachmentsByNode(nil, id) {
		return refuse(fault.Conflict, fmt.Sprintf("volume %s is not proven detached: %s", a.Volume,
			volume.DescribeAttachment(a)), "follow it with: berth volume status "+a.Volume.Typed())
	}
	for i := range s.InventoryOf(nil, id) {
		if !i.Entry.Quiet() && mounts.Judge(s, nil, i.Entry.StagingKey, id) == mounts.Believed {
			return refuse(fault.Conflict, fmt.Sprintf("volume %q of plugin %q is not proven released: %s",
				i.Entry.ExternalID, i.Entry.Plugin, i.Entry.Unreleased()),
				"the node releases it when it is back; if its machine is dead: berth node replace -reason … "+
					ids.Short(id)+" OTHER")
		}
	}
	return nil
}
