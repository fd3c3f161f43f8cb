package holders

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Void lists the publications of an entry that no claim allows any more: their claims ended by proof, or this state
// continues the one under which the node received them and knows them no longer. What a state does not know because it
// was emptied, cut or restored is not void: nobody has ended it.
func Void(s *state.Snap, node ids.Node, e volume.InventoryEntry) []wire.VoidClaim {
	var out []wire.VoidClaim
	for _, p := range e.Publications {
		key := volume.PublicationKey{StagingKey: e.StagingKey, Alloc: p.Alloc}
		if !p.Wanted || claimedIn(s, key, p.Epoch) {
			continue
		}
		if s.ClaimProof(node, key, p.Epoch) != nil || s.Relate(received(p)) == lineage.Continues {
			out = append(out, wire.VoidClaim{PublicationKey: key, Epoch: p.Epoch})
		}
	}
	return out
}

// claimedIn tells whether an alloc's claim of a provider's volume is there in an epoch.
func claimedIn(s *state.Snap, k volume.PublicationKey, e volume.Epoch) bool {
	for c := range s.ClaimsByAlloc(nil, k.Alloc) {
		if c.Staging() == k.StagingKey && slices.Contains(c.Epochs(), e) {
			return true
		}
	}
	return false
}

// received is where the servers' state was when a node received a claim. A record from before there were marks has the
// claim's epoch, which is earlier.
func received(p volume.InventoryPublication) lineage.Point {
	if p.Received.IsZero() {
		return lineage.Point{Incarnation: p.Epoch.Incarnation, Index: p.Epoch.Index}
	}
	return p.Received
}
