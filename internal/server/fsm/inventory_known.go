package fsm

import (
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/holders"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// InventoryKnown reports whether a whole report of what a node says to hold would change nothing of the state but when
// it was heard last, and would be answered with nothing that the node has to hear. It goes on the safe side: as long as
// anything of the node is on its way, the report itself is needed.
//
// It must follow the newest report, which is of this session, for a new one begins without a whole report; and one was
// taken over in this leadership, which believes nothing of the state that no node has confirmed to it.
func InventoryKnown(s *state.Snap, d *wire.InventoryDigest) (bool, error) {
	h := s.InventoryHead(nil, d.Node)
	switch {
	case h == nil || h.ModifyIndex != d.Prev || h.FullIndex == 0 || h.FullIndex < s.MarkIndex(),
		s.Relate(d.At) != lineage.Continues || d.At.Index < h.AllocIndex,
		s.Recovery(nil).Expects(d.Node) || len(h.Unknown) > 0 || claimsMove(s, h):
		return false, nil
	}
	var entries []volume.InventoryEntry
	for i := range s.InventoryOf(nil, d.Node) {
		if !settled(s, i) {
			return false, nil
		}
		entries = append(entries, i.Entry)
	}
	digest, err := wire.InventoryDigestOf(entries, nil)
	return digest == d.Digest, err
}

// claimsMove reports whether a claim of a node, or the proof of one, waits for its word: the node's silence about what
// is newer than its last report says something that the state does not have.
func claimsMove(s *state.Snap, h *state.InventoryHead) bool {
	for c := range s.ClaimsByNode(nil, h.Node) {
		if c.State != volume.Held || c.Epoch.Index > h.AllocIndex || c.Before != nil {
			return true
		}
	}
	for range s.ClaimProofsOf(nil, h.Node) {
		return true
	}
	return false
}

// settled reports whether nothing follows from an entry that is reported once more.
func settled(s *state.Snap, i *state.Inventory) bool {
	k := i.Entry.StagingKey
	if len(holders.Void(s, i.Node, i.Entry)) > 0 || s.Tombstone(nil, k) != nil {
		return false
	}
	owner := attaching.ProviderOf(s, nil, k)
	if owner != "" && owner != i.Entry.Provider {
		return false
	}
	attached := i.Entry.Generation > 0
	if rec := s.Plugin(nil, k.Plugin); rec != nil {
		attached = attached || rec.NeedsAttach
	}
	if attached && s.Attachment(nil, volume.AttachmentKey{StagingKey: k, Node: i.Node}) == nil {
		return false // the state has lost what the entry was made with
	}
	v := s.VolumeOf(nil, k)
	return v == nil || !v.Status.NodeExpandPending
}
