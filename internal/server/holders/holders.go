// Package holders owns the question who holds or needs a provider's volume: one query over claims, attachments, what
// nodes report, clones and snapshots under way. Pure reading of a snapshot. The endpoints ask it to refuse early and in
// words, keepers before a call that destroys, and the commands of package fsm once more when they are applied. Only
// packages of the server import it.
package holders

import (
	"cmp"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
)

// InUse says who uses a volume, before anything is touched: the claim, the attachment, the node's mount or the copy
// under way that stands in the way, with the job and since when. What counts is the provider's volume, under whichever
// name it was used. The watch sees whatever may change the answer.
func InUse(s *state.Snap, w *state.Watch, op string, v *volume.Volume) error {
	busy := func(text, hint string) error {
		return fault.WithHint(
			fault.New(fault.Busy, op, `volume "`+string(v.ID.ID)+`"`, "volume in use: "+string(v.ID.ID)+": "+text),
			hint)
	}
	follow := "follow it with: berth volume status " + v.ID.Typed()
	for c := range s.ClaimsOf(w, v.Staging()) {
		if u, found := UnknownMount(s, w, c.Node, c.Plugin); found && c.State == volume.Releasing {
			return busy(volume.DescribeClaim(c)+"; there: "+u.Describe(c.Node), follow)
		}
		hint := "stop the job first: berth job stop " + ids.Typed(c.Volume.Namespace, c.Job)
		if !holds(s, c) {
			hint = "its end is under way; wait for it with: berth volume delete -wait 30s " + v.ID.Typed()
			if op != "delete" {
				hint = "its end is under way; " + follow
			}
		}
		if n := s.Node(w, c.Node); c.State == volume.Releasing && n != nil && n.Status == node.StatusDown {
			return busy(volume.DescribeClaim(c)+"; the node is down", DeadNode(v.ID, c.Node))
		}
		return busy(volume.DescribeClaim(c), hint)
	}
	for i := range s.InventoriesOf(w, v.Staging()) {
		if text, hint := OnNode(s, i); text != "" {
			return busy(text, cmp.Or(hint, follow))
		}
	}
	if why := suspension.Destruction(s, w, v.Staging()); why != nil {
		return why.Refuse(op, `volume "`+string(v.ID.ID)+`"`)
	}
	if n := Unreported(s, w); n != nil {
		return fault.WithHint(fault.New(fault.NotReady, op, `volume "`+string(v.ID.ID)+`"`,
			fmt.Sprintf("node %s has not reported yet what it holds since the servers began to lead", ids.Short(n.ID))),
			"it does so when its agent answers; see: berth node status "+ids.Short(n.ID))
	}
	for a := range s.AttachmentsOf(w, v.Staging()) {
		return busy(volume.DescribeAttachment(a), "it is detached by itself; "+follow)
	}
	if text := copied(s, w, v); text != "" {
		return busy(text, "wait until that has ended")
	}
	return nil
}

// DeadNode is the way out when a node is down that has not released a volume.
func DeadNode(v volume.ID, id ids.Node) string {
	return fmt.Sprintf("the node releases it when it is back; if it never writes again: berth volume detach "+
		"-node-is-dead <reason> %s %s", v.Typed(), ids.Short(id))
}

// copied says what is being made from a volume.
func copied(s *state.Snap, w *state.Watch, v *volume.Volume) string {
	for o := range s.VolumesByPlugin(w, v.Spec.Plugin) {
		if o.Spec.CloneID == "" || o.Status.Phase != volume.PhaseCreating {
			continue
		}
		if src := Source(s, o); src != nil && src.ID == v.ID {
			return fmt.Sprintf("volume %q is being cloned from it", o.ID.ID)
		}
	}
	for sn := range s.VolumeSnapshotsOf(w, v.Staging()) {
		if sn.Phase == volume.PhaseCreating {
			return fmt.Sprintf("snapshot %q is being cut from it", sn.Name)
		}
	}
	return ""
}

// Source finds the volume that another is cloned from: the one noted when the clone was begun, else what its clone_id
// names: a volume of the namespace, or one with this external id.
func Source(s *state.Snap, v *volume.Volume) *volume.Volume {
	if v.Status.SourceExternalID != "" {
		return s.VolumeOf(nil, volume.StagingKey{Plugin: v.Spec.Plugin, ExternalID: v.Status.SourceExternalID})
	}
	if src := s.Volume(nil, volume.ID{Namespace: v.Namespace, ID: ids.Volume(v.Spec.CloneID)}); src != nil &&
		src.Spec.Plugin == v.Spec.Plugin {
		return src
	}
	for src := range s.VolumesByExternalID(nil, v.Spec.Plugin, v.Spec.CloneID) {
		if src.Namespace == v.Namespace {
			return src
		}
	}
	return nil
}

// OfSnapshot says what is being made from a snapshot; empty: nothing.
func OfSnapshot(s *state.Snap, sn *volume.Snapshot) string {
	for v := range s.VolumesByPlugin(nil, sn.Plugin) {
		if sn.ExternalID != "" && v.Spec.SnapshotID == sn.ExternalID && v.Status.Phase == volume.PhaseCreating {
			return "volume " + v.ID.String() + " is being made from it"
		}
	}
	return ""
}

// OnNode says what a node still has of a volume, and what to do when nobody but a person can end it.
func OnNode(s *state.Snap, i *state.Inventory) (text, hint string) {
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
	return "node " + ids.Short(i.Node) + " has not released it yet: " + i.Entry.Unreleased(), ""
}

// UnknownMount returns something that is mounted on a node, may be a volume of the plugin, and has no name.
func UnknownMount(s *state.Snap, w *state.Watch, n ids.Node, p ids.Plugin) (volume.UnknownMount, bool) {
	h := s.InventoryHead(w, n)
	if h == nil {
		return volume.UnknownMount{}, false
	}
	return volume.UnknownOf(h.Unknown, p)
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

// ForGood reports whether a claim of the volume will not end by itself.
func ForGood(s *state.Snap, v *volume.Volume) bool {
	for c := range s.ClaimsOf(nil, v.Staging()) {
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

// Orphaned reports that every claim of a volume belongs to an alloc that is gone, or has ended.
func Orphaned(s *state.Snap, v *volume.Volume) bool {
	for c := range s.ClaimsOf(nil, v.Staging()) {
		if a := s.Alloc(nil, c.Alloc); a != nil && !a.Terminal() {
			return false
		}
	}
	return true
}

// Left reports whether anybody may still hold something of a provider's volume: a claim, an attachment, a mount on a
// node, or a node whose claim ended by proof and that has not said yet that it cleaned up.
func Left(s *state.Snap, k volume.StagingKey) bool {
	for range s.ClaimsOf(nil, k) {
		return true
	}
	for range s.AttachmentsOf(nil, k) {
		return true
	}
	for i := range s.InventoriesOf(nil, k) {
		if !i.Entry.Quiet() {
			return true
		}
	}
	for range s.ClaimProofsFor(nil, k) {
		return true
	}
	return false
}
