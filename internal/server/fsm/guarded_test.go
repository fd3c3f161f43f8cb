package fsm_test

import (
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// written puts the state into a condition that many commands together bring about.
func (h *held) written(t *testing.T, put func(*state.Tx)) {
	t.Helper()
	stamp := h.snap().Stamp()
	stamp.Index++
	if err := h.c.Store.Write(stamp, func(tx *state.Tx) error { put(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

// TestNoProofEndsAClaimInAStateThatIsOlderThanTheWorld: while any node shows a history that the state does not contain,
// whoever proves that a claim has ended may speak of a claim that this history knows better: it stays.
func TestNoProofEndsAClaimInAStateThatIsOlderThanTheWorld(t *testing.T) {
	h := claimed(t)
	h.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{h.node}, Status: node.StatusDown, Seed: ids.New()})
	h.written(t, func(tx *state.Tx) {
		tx.PutEvidence(&recovery.Evidence{Node: ids.Node(ids.New()), At: tx.Point(nil), Relation: lineage.Forked})
	})
	proof := &fsm.ClaimProof{
		Claim: volume.ClaimKey{Volume: h.vol, Alloc: h.alloc},
		Epoch: h.epoch,
		Proof: volume.ProofAttested,
	}
	if _, _, err := h.c.Propose(t.Context(), proof); !fault.Has(err, fault.NotReady) || h.claim() == nil {
		t.Errorf("the claim is %+v: %v", h.claim(), err)
	}
}

// TestAPartOfAnInventoryIsNotAllThatANodeHolds: after a restore, a node has been heard when it has said all that it
// holds, in the incarnation that began; a part of it leaves the others open.
func TestAPartOfAnInventoryIsNotAllThatANodeHolds(t *testing.T) {
	h := claimed(t)
	const began = "after"
	h.written(t, func(tx *state.Tx) {
		tx.PutRecovery(&recovery.Record{
			Incarnation: began,
			Whole:       true,
			Nodes:       []recovery.Node{{ID: h.node}},
		})
	})
	for _, c := range []struct {
		full        bool
		incarnation string
		heard       bool
	}{{false, began, false}, {true, "before", false}, {true, began, true}} {
		cmd := &fsm.InventoryApply{
			Node:        h.node,
			Full:        c.full,
			Incarnation: c.incarnation,
			AllocIndex:  h.epoch.Index,
			Entries:     []volume.InventoryEntry{h.mounted(volume.Present, volume.Present)},
		}
		if head := h.snap().InventoryHead(nil, h.node); head != nil {
			cmd.Prev = head.ModifyIndex
		}
		h.c.Must(t, cmd)
		if got := h.snap().Recovery(nil).Node(h.node).Reported > 0; got != c.heard {
			t.Errorf("whole: %v, of %q: it counts as heard: %v", c.full, c.incarnation, got)
		}
	}
}
