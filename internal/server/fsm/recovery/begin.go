// Package recovery owns the commands by which a state that is older than the world finds back to it: what shows it, how
// a new incarnation begins, who was heard, and how it ends. Package fsm applies them; endpoints propose them.
package recovery

import (
	"cmp"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	model "berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

// schema is that of every command here.
const schema = 5

func init() {
	fsm.Register[Begin]("recovery-begin", schema, "server/endpoint/operator")
	fsm.Register[Finish]("recovery-finish", schema, "server/endpoint/operator")
	fsm.Register[Dismiss]("recovery-dismiss", schema, "server/endpoint/operator")
	fsm.Register[Attest]("recovery-attest", schema, "server/endpoint/storage")
	fsm.Register[Evidence]("lineage-evidence", schema, "server/endpoint/nodes")
}

// Begin leaves the incarnation of the state for a new one, whose history is distinct from here on, and lets nothing be
// done with a volume before every node that may hold it was heard. A restore from a snapshot applies it to the restored
// state before anybody sees that.
type Begin struct {
	Incarnation string // the new one
	Mark        string // its first; 128 random bits
	Cause, By   string
	// Replaced is the state that was replaced by a restore, read before it was; nil: there was none, or it is lost.
	Replaced *Replaced
	// Seen are the incarnations that nodes have seen and this state has not, which it goes on from by a person's word:
	// it is an older copy of what they came from. Their nodes follow it; what it does not know of them stays an orphan.
	Seen   []string
	Schema uint64 // that the cluster understands
}

// Replaced is what a restore takes over from the state that it replaces.
type Replaced struct {
	// Whole: it is a state of the same cluster, so that no node is missing among Nodes.
	Whole       bool
	Incarnation string
	Parents     []string
	Nodes       []Named
}

// Named is a node.
type Named struct {
	ID   ids.Node
	Name string
}

// Replacing reads what a restore of a cluster's state takes over from the present one. A state that may itself be older
// than the world does not know all nodes; one that was restored does, once the list of its recovery is complete, for
// whoever came since is in that.
func Replacing(s *state.Snap, cluster string) *Replaced {
	m := s.Meta(nil)
	if m == nil {
		return nil
	}
	out := &Replaced{
		Whole:       m.ClusterID == cluster && s.Recovery(nil).Listed() && len(suspension.Against(s, nil)) == 0,
		Incarnation: m.Incarnation,
		Parents:     m.Parents,
	}
	for id, name := range nodesOf(s) {
		out.Nodes = append(out.Nodes, Named{ID: id, Name: name})
	}
	slices.SortFunc(out.Nodes, func(a, b Named) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// nodesOf are all nodes that a state knows or names: one whose record was collected may have been put back, too.
func nodesOf(s *state.Snap) map[ids.Node]string {
	out := map[ids.Node]string{}
	name := func(id ids.Node) {
		if _, known := out[id]; !known && id != "" {
			out[id] = ""
		}
	}
	for c := range s.Claims(nil) {
		name(c.Node)
	}
	for a := range s.Attachments(nil) {
		name(a.Node)
	}
	for h := range s.InventoryHeads(nil) {
		name(h.Node)
	}
	for e := range s.AllEvidence(nil) {
		out[e.Node] = e.Name
	}
	if r := s.Recovery(nil); r != nil && r.Ended.IsZero() {
		for i := range r.Nodes {
			out[r.Nodes[i].ID] = r.Nodes[i].Name
		}
	}
	for n := range s.Nodes(nil, "") {
		out[n.ID] = n.Name
	}
	return out
}

// Apply returns the *model.Record.
func (c *Begin) Apply(tx *state.Tx, st state.Stamp) (any, error) {
	m := tx.Meta(nil)
	switch {
	case m == nil:
		return nil, fault.New(fault.Internal, "begin", "a recovery", "the cluster has no identity yet")
	case c.Incarnation == "" || c.Incarnation == m.Incarnation || c.Mark == "" || tx.LineageMark(c.Mark) != nil:
		return nil, fault.New(fault.Invalid, "begin", "a recovery", "its incarnation or its mark is not a new one")
	}
	rec := &model.Record{
		Cause:       c.Cause,
		By:          c.By,
		Parent:      m.Incarnation,
		Incarnation: c.Incarnation,
		Begun:       st.Time,
		Index:       st.Index,
	}
	nodes := nodesOf(&tx.Snap)
	parents := append([]string{m.Incarnation}, m.Parents...)
	if c.Replaced != nil {
		rec.Parent, rec.Whole = c.Replaced.Incarnation, c.Replaced.Whole
		parents = append(append([]string{c.Replaced.Incarnation}, c.Replaced.Parents...), parents...)
		for _, n := range c.Replaced.Nodes {
			nodes[n.ID] = n.Name
		}
	}
	parents = append(parents, c.Seen...)
	for id, name := range nodes {
		rec.Nodes = append(rec.Nodes, model.Node{ID: id, Name: name})
	}
	slices.SortFunc(rec.Nodes, func(a, b model.Node) int { return cmp.Compare(a.ID, b.ID) })
	c.incarnate(tx, st, m, parents)
	unhear(tx)
	doubt(tx)
	suspend(tx)
	tx.PutRecovery(rec)
	return rec, nil
}

// incarnate closes the history that the state has and begins the next. What the old one's last mark covers ends with
// what this state contains of it: others may have seen more.
func (c *Begin) incarnate(tx *state.Tx, st state.Stamp, m *state.Meta, parents []string) {
	if old := tx.LineageMark(m.Mark); old != nil {
		before := *old
		before.Next = tx.Index() + 1
		tx.PutLineageMark(&before)
	}
	tx.PutLineageMark(&lineage.Mark{ID: c.Mark, Index: st.Index})
	now := *m
	now.Incarnation = c.Incarnation
	now.Mark = c.Mark
	now.Schema = max(m.Schema, c.Schema)
	now.Parents = nil
	for _, p := range parents {
		if p != "" && p != c.Incarnation && !slices.Contains(now.Parents, p) {
			now.Parents = append(now.Parents, p)
		}
	}
	tx.PutMeta(&now)
}

// unhear forgets that nodes have reported: what the state has of their reports stays in the way of others, and nothing
// follows from their silence.
func unhear(tx *state.Tx) {
	for _, h := range slices.Collect(tx.InventoryHeads(nil)) {
		tx.PutInventoryHead(&state.InventoryHead{Node: h.Node})
	}
}

// doubt makes attachments uncertain: since the state was saved they may have been undone, or made in another way. What
// is wanted is attached once more before it is staged.
func doubt(tx *state.Tx) {
	for _, a := range slices.Collect(tx.Attachments(nil)) {
		if a.Presence == volume.Present {
			n := *a
			n.Presence = volume.Uncertain
			tx.PutAttachment(&n)
		}
	}
}

// suspend holds what people asked for before: the provider may have given the name, or the id, to something else since.
// What was being made may be there by now, though its call was not begun when the state was saved: whoever has it
// deleted has the provider asked for it first.
func suspend(tx *state.Tx) {
	for _, v := range slices.Collect(tx.Volumes(nil, "*", "")) {
		switch v.Status.Phase {
		case volume.PhaseCreating, volume.PhaseDeleting, volume.PhaseExpanding:
			n := *v
			n.Status.Suspended = true
			if n.Status.Phase == volume.PhaseCreating {
				n.Status.Presence = max(n.Status.Presence, volume.Uncertain)
			}
			tx.PutVolume(&n)
		}
	}
	for _, sn := range slices.Collect(tx.VolumeSnapshots(nil)) {
		if sn.Phase == volume.PhaseCreating || sn.Phase == volume.PhaseDeleting {
			n := *sn
			n.Suspended = true
			if n.Phase == volume.PhaseCreating {
				n.Presence = max(n.Presence, volume.Uncertain)
			}
			tx.PutVolumeSnapshot(&n)
		}
	}
}
