// Package mounts owns the question whose word about a mount counts. A node reports the volumes that it has mounted, and
// what is mounted is given to nobody else, and not deleted. A node that was never given a volume, and cannot have it by
// all that a state knows which is not older than the world, holds up no volume of others by saying so; what it says is
// shown. After a restore, or where the state may have lost something, nodes are believed.
//
// It is read from the state whenever it is asked, for recoveries begin and evidence comes after a report. Only packages
// of the server import it.
package mounts

import (
	"fmt"
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// Of yields what nodes say of a provider's volume, and are believed, by node.
func Of(s *state.Snap, w *state.Watch, k volume.StagingKey) iter.Seq[*state.Inventory] {
	return func(yield func(*state.Inventory) bool) {
		for i := range s.InventoriesOf(w, k) {
			if Judge(s, w, k, i.Node) == Believed && !yield(i) {
				return
			}
		}
	}
}

// Judge reads the facts about a volume and a node that says to have it mounted, and decides.
func Judge(s *state.Snap, w *state.Watch, k volume.StagingKey, on ids.Node) Result {
	v, m := s.VolumeOf(w, k), s.Meta(w)
	if v == nil || m == nil || m.NodesSince == 0 || v.CreateIndex <= m.NodesSince {
		return Decide(Facts{Unremembered: true})
	}
	f := Facts{
		Given:     s.VolumeNode(w, k, on) != nil,
		Older:     older(s, w, k, on),
		Elsewhere: v.Status.HomeNode != "" && v.Status.HomeNode != on,
	}
	if now := s.Session(w, on); now == nil {
		f.Vouched = true // of an agent from before sessions
	} else {
		f.Vouched, f.Together = now.Standing.Vouched, now.Standing.InProcess
	}
	if rec := s.Plugin(w, k.Plugin); rec != nil && rec.NeedsAttach {
		f.Unattached = s.Attachment(w, volume.AttachmentKey{StagingKey: k, Node: on}) == nil
	}
	return Decide(f)
}

// older reports whether the state may be older than what a node did with a volume.
func older(s *state.Snap, w *state.Watch, k volume.StagingKey, on ids.Node) bool {
	r := s.Recovery(w)
	if !r.Over(k) || r.Expects(on) {
		return true
	}
	if r != nil && !r.Whole && r.Node(on) == nil {
		return true // nobody but a person said that no node is missing in the list, and it is not in it
	}
	m := s.Meta(w)
	for e := range s.AllEvidence(w) {
		if e.Counts(m.Incarnation) {
			return true
		}
	}
	return false
}

// Newcomer reports whether a node became known after an index, and can have done nothing by a state that knew more.
func Newcomer(s *state.Snap, w *state.Watch, n *node.Node, began uint64) bool {
	now := s.Session(w, n.ID)
	return s.Understands(state.RemembersNodes) && n.CreateIndex > began && now != nil && !now.Standing.Vouched &&
		!now.Standing.InProcess && !older(s, w, volume.StagingKey{}, n.ID)
}

// Remember keeps for later that a node is believed to have a volume because the state may be older than the world: when
// that is over, its word is not worth less.
func Remember(tx *state.Tx, on ids.Node, k volume.StagingKey) {
	if r := tx.Recovery(nil); tx.VolumeOf(nil, k) != nil && (!r.Over(k) || r.Expects(on)) {
		tx.RememberNode(k, on)
	}
}

// Disbelieved says for people what a node says of a volume and is not believed in; empty: it is believed, or says
// nothing. what is what it says.
func Disbelieved(s *state.Snap, w *state.Watch, v *volume.Volume, on ids.Node, what string) string {
	why := ""
	switch Judge(s, w, v.Staging(), on) {
	case Believed:
		return ""
	case AtHome:
		why = "the volume lives on node " + ids.Short(v.Status.HomeNode)
	case Apart:
		why = "the volume was never attached there"
	}
	return fmt.Sprintf("node %s says that %s; it was never given the volume, and %s: that holds up nobody. The node "+
		"is wrong, or somebody else speaks for it: look at it, end what is mounted there, or stop its agent for good; "+
		"when it is down, berth system gc forgets it", ids.Short(on), what, why)
}
