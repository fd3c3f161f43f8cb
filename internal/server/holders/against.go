package holders

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// Against says what excludes a claim for a use that is there already: another alloc's claim, mount or attachment. Nodes
// that have not reported since the leadership began may hold another use that nobody knows of.
func Against(s *state.Snap, c *volume.Claim) error {
	busy := func(text, hint string) error {
		return fault.WithHint(fault.New(fault.Busy, "claim", `volume "`+c.Volume.String()+`"`, text), hint)
	}
	for o := range s.ClaimsOf(nil, c.Staging()) {
		if o.Alloc != c.Alloc && volume.Excludes(o, c) {
			return busy(volume.DescribeClaim(o), endOf(s, o))
		}
	}
	for i := range s.InventoriesOf(nil, c.Staging()) {
		if who := excludedBy(i, c); who != "" {
			return busy(fmt.Sprintf("node %s holds it for %s", ids.Short(i.Node), who),
				"end that use first (see: berth volume status "+c.Volume.Typed()+", berth node orphans list)")
		}
	}
	for a := range s.AttachmentsOf(nil, c.Staging()) {
		if a.Node != c.Node && a.Presence.Exists() && c.AccessMode.SingleNode() {
			return busy(volume.DescribeAttachment(a), "wait until it is detached there")
		}
	}
	if !volume.Excludes(c, c) {
		return nil
	}
	if n := Unreported(s, nil); n != nil {
		return fault.WithHint(fault.New(fault.NotReady, "claim", `volume "`+c.Volume.String()+`"`,
			fmt.Sprintf("node %s has not reported yet what it holds since the servers began to lead", ids.Short(n.ID))),
			"it does so when its agent answers; see: berth node status "+ids.Short(n.ID))
	}
	return nil
}

// endOf is how a claim ends that stands in the way of an orphan's. One of an alloc that a restore brought back, and of
// which its node has no record, is released by that node's report.
func endOf(s *state.Snap, o *volume.Claim) string {
	if o.State != volume.Releasing {
		return "stop that job first (berth job stop " + ids.Typed(o.Volume.Namespace, o.Job) + "), or end the orphan"
	}
	if n := s.Node(nil, o.Node); n == nil || n.Status == node.StatusDown {
		return DeadNode(o.Volume, o.Node)
	}
	return fmt.Sprintf("it ends when node %s has reported that it holds nothing of it; follow it with: berth volume "+
		"status %s", ids.Short(o.Node), o.Volume.ID)
}

// excludedBy names whom a node holds a volume for in a way that excludes a claim; empty: nobody. What a node mounted
// without a claim counts as used in the same way as the claim: the mode of an older use is not known.
func excludedBy(i *state.Inventory, c *volume.Claim) string {
	for _, p := range i.Entry.Publications {
		other := &volume.Claim{Alloc: p.Alloc, Node: i.Node, AccessMode: c.AccessMode, ReadOnly: p.ReadOnly}
		if p.Presence.Exists() && p.Alloc != c.Alloc && volume.Excludes(other, c) {
			return "allocation " + ids.Short(p.Alloc)
		}
	}
	if i.Node != c.Node && i.Entry.Staging.Exists() && c.AccessMode.SingleNode() {
		return "nobody that is known"
	}
	return ""
}
