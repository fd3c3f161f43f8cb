package volumes

import (
	"cmp"
	"fmt"
	"iter"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// InUse says who uses a volume, before anything is touched: the claim, the attachment or the node's mount that stands
// in the way, with the job and since when. The watch sees whatever may change the answer.
func InUse(s *state.Snap, w *state.Watch, op string, id volume.ID) error {
	busy := func(text, hint string) error {
		return fault.WithHint(
			fault.New(fault.Busy, op, `volume "`+string(id.ID)+`"`, "volume in use: "+string(id.ID)+": "+text), hint)
	}
	for c := range s.ClaimsByVolume(w, id) {
		hint := "stop the job first: berth job stop " + string(c.Job)
		if !holds(s, c) {
			hint = "its end is under way; wait for it with: berth volume " + op + " -wait 30s " + string(id.ID)
			if op != "delete" {
				hint = "its end is under way; follow it with: berth volume status " + string(id.ID)
			}
		}
		return busy(volume.DescribeClaim(c), hint)
	}
	for i := range InventoryOf(s, w, id) {
		if text, hint := HeldOnNode(s, i); text != "" {
			return busy(text, cmp.Or(hint, "follow it with: berth volume status "+string(id.ID)))
		}
	}
	if n := Unreported(s, w); n != nil {
		return fault.WithHint(fault.New(fault.NotReady, op, `volume "`+string(id.ID)+`"`,
			fmt.Sprintf("node %s has not reported yet what it holds since the servers began to lead", ids.Short(n.ID))),
			"it does so when its agent answers; see: berth node status "+ids.Short(n.ID))
	}
	for a := range s.AttachmentsByVolume(w, id) {
		return busy(volume.DescribeAttachment(a),
			"it is detached by itself; follow it with: berth volume status "+string(id.ID))
	}
	for v := range s.Volumes(w, id.Namespace, "") {
		if v.Spec.CloneID == string(id.ID) && v.Status.Phase == volume.PhaseCreating {
			return busy(fmt.Sprintf("volume %q is being cloned from it", v.ID.ID), "wait until that has ended")
		}
	}
	for sn := range s.VolumeSnapshotsOf(w, id) {
		if sn.Phase == volume.PhaseCreating {
			return busy(fmt.Sprintf("snapshot %q is being cut from it", sn.Name), "wait until that has ended")
		}
	}
	return nil
}

// InventoryOf yields what nodes hold of a volume: by the provider's id of it, under whichever name they received it,
// for a state that was emptied or restored may know it by another; by its name while that id is not known. Another
// volume that nodes hold under the same name is not this one.
func InventoryOf(s *state.Snap, w *state.Watch, id volume.ID) iter.Seq[*state.Inventory] {
	return func(yield func(*state.Inventory) bool) {
		held := s.InventoryByVolume(w, id)
		if v := s.Volume(w, id); v != nil && v.Status.ExternalID != "" {
			held = s.InventoryByExternalID(w, volume.StagingKey{Plugin: v.Spec.Plugin, ExternalID: v.Status.ExternalID})
		}
		for i := range held {
			if !yield(i) {
				return
			}
		}
	}
}

// HeldOnNode says what a node still has of a volume, and what to do when nobody but a person can end it.
func HeldOnNode(s *state.Snap, i *state.Inventory) (text, hint string) {
	if i.Entry.Quiet() {
		return "", ""
	}
	for _, p := range i.Entry.Publications {
		if p.Presence.Exists() && s.Alloc(nil, p.Alloc) == nil {
			return fmt.Sprintf("node %s has it mounted for allocation %s, which the servers do not know",
					ids.Short(i.Node), ids.Short(p.Alloc)),
				"see it with: berth node orphans list; end it with: berth node orphans end " + ids.Short(p.Alloc)
		}
	}
	return "node " + ids.Short(i.Node) + " has not released it yet: " + i.Entry.Step, ""
}

// Unreported returns a node that may hold anything, for all that this leadership knows: it is not down, and has not
// sent its whole inventory since the leadership began. What the state says of it may be older than what it did.
func Unreported(s *state.Snap, w *state.Watch) *node.Node {
	began := s.MarkIndex()
	for n := range s.Nodes(w, "") {
		if n.Status == node.StatusDown {
			continue
		}
		if h := s.InventoryHead(w, n.ID); h == nil || h.FullIndex < began {
			return n
		}
	}
	return nil
}

// HeldForGood reports whether a claim of the volume will not end by itself.
func HeldForGood(s *state.Snap, id volume.ID) bool {
	for c := range s.ClaimsByVolume(nil, id) {
		if holds(s, c) {
			return true
		}
	}
	return false
}

// holds reports a claim that will not end by itself: nobody asked its alloc to stop, and its job goes on. A job that
// was asked to stop a moment ago is on its way, even before the scheduler has looked at it.
func holds(s *state.Snap, c *volume.Claim) bool {
	if c.State == volume.Releasing {
		return false
	}
	a := s.Alloc(nil, c.Alloc)
	return a == nil || !a.Terminal() && !s.Job(nil, a.Namespace, a.Job).Stopped()
}
