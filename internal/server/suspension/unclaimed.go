package suspension

import (
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// Unclaimed lists what a node says to hold of volumes of which nothing on it has a claim: for an orphan, of before a
// restore, or because it is wrong, or in the hands of somebody else. It counts for nothing but caution.
func Unclaimed(s *state.Snap, w *state.Watch, on ids.Node) (out []*volume.InventoryEntry) {
	for i := range s.InventoryOf(w, on) {
		if !i.Entry.Quiet() && (unclaimed(s, w, i) != "" || !ClaimedOn(s, w, i.Entry.StagingKey, on)) {
			out = append(out, &i.Entry)
		}
	}
	return out
}

// Disbelieve is how a person ends what stands by the word of a node alone: first the node is let in no more, so that it
// goes down, and then another one takes its place.
func Disbelieve(s *state.Snap, w *state.Watch, on ids.Node) string {
	replace := "berth node replace -reason … " + ids.Short(on) + " OTHER"
	if n := s.Node(w, on); n != nil && n.Status == node.StatusDown {
		return "if its machine does not come back: " + replace
	}
	return "if the node is not to be believed: berth node deny -reason … " + ids.Short(on) + ", and when it is down: " +
		replace
}

// orphaned reports an alloc that a node names among its orphans.
func orphaned(s *state.Snap, w *state.Watch, on ids.Node, id ids.Alloc) bool {
	n := s.Node(w, on)
	if n == nil {
		return false
	}
	for i := range n.Orphans {
		if n.Orphans[i].Alloc == id {
			return true
		}
	}
	return false
}
