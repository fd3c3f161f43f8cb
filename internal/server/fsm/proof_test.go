package fsm_test

import (
	"slices"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

func (h *held) history(uid string) []*volume.ProvenEnd {
	return slices.Collect(h.snap().ProvenEnds(nil, uid))
}

// A proof is read when something went wrong, long after its node has cleaned up: it belongs to the provider's volume,
// and goes with its identity.
func TestAProofStaysInTheHistoryOfItsVolume(t *testing.T) {
	h := claimed(t)
	uid := h.snap().Volume(nil, h.vol).UID
	h.says(t, true, h.epoch.Index, h.mounted(volume.Present, volume.Present))
	h.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{h.node}, Status: node.StatusDown, Seed: ids.New()})
	h.c.Must(t, &fsm.ClaimProof{
		Claim:  volume.ClaimKey{Volume: h.vol, Alloc: h.alloc},
		Epoch:  h.epoch,
		Proof:  volume.ProofAttested,
		Reason: "the rack burnt",
		By:     "user 0",
	})
	stays := func(when string) {
		t.Helper()
		all := h.history(uid)
		if len(all) != 1 {
			t.Fatalf("%s the history has %d proofs", when, len(all))
		}
		if e := all[0]; e.Reason != "the rack burnt" || e.By != "user 0" || e.Node != h.node || e.Alloc != h.alloc ||
			e.Epoch != h.epoch || e.Proof != volume.ProofAttested || e.Time.IsZero() || e.Index == 0 {
			t.Errorf("%s the history says %+v", when, e)
		}
	}
	stays("after the proof")
	h.c.Must(t, &fsm.VolumeForget{
		ID:    h.vol,
		Seen:  h.snap().Volume(nil, h.vol).ModifyIndex,
		Force: true,
	})
	stays("after the volume was forgotten by force")
	v, err := h.registers(t, "db2", h.key.ExternalID)
	if err != nil {
		t.Fatal(err)
	}
	stays("under another name")
	h.c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: h.node, Name: "n", SecretHash: "h"}})
	h.says(t, true, h.epoch.Index)
	for p := range h.snap().ClaimProofsOf(nil, h.node) {
		t.Errorf("the node cleaned up, there is still to be said %+v", p)
	}
	stays("after its node cleaned up")
	h.c.Must(t, &fsm.VolumeForget{ID: v.ID, Seen: h.snap().Volume(nil, v.ID).ModifyIndex})
	if left := h.history(uid); len(left) != 0 {
		t.Errorf("nobody can have this identity any more, its history stays: %+v", left)
	}
}

// The history of what was forgotten by force goes with the last that is left of it.
func TestTheHistoryOfAVolumeThatIsGoneGoesToo(t *testing.T) {
	h := lost(t)
	uid := h.snap().Tombstone(nil, h.key).UID
	h.c.Must(t, &fsm.ClaimProof{
		Claim: volume.ClaimKey{Volume: h.vol, Alloc: h.alloc},
		Epoch: h.epoch,
		Proof: volume.ProofAttested,
	})
	if n := len(h.history(uid)); n != 1 {
		t.Fatalf("the history has %d proofs", n)
	}
	h.c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: h.node, Name: "n", SecretHash: "h"}})
	h.says(t, true, h.epoch.Index)
	if h.snap().Tombstone(nil, h.key) != nil || len(h.history(uid)) != 0 {
		t.Errorf("nothing is left of it, but %+v and %+v", h.snap().Tombstone(nil, h.key), h.history(uid))
	}
}

// A volume's history is bounded, and its newest is kept; that of others is not touched.
func TestTheHistoryOfAVolumeIsBounded(t *testing.T) {
	h := claimed(t)
	for i := range uint64(150) {
		st := fsm.Stamp{Index: h.snap().Index() + 1}
		if err := h.c.Store.Write(st, func(tx *state.Tx) error {
			tx.AddProvenEnd(&volume.ProvenEnd{UID: "u", Epoch: volume.Epoch{Index: i}})
			if i == 0 {
				tx.AddProvenEnd(&volume.ProvenEnd{UID: "u2"})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	all := h.history("u")
	if len(all) != 100 || all[0].Epoch.Index != 50 || all[99].Epoch.Index != 149 || len(h.history("u2")) != 1 {
		t.Errorf("%d are kept, from %+v on; of another volume %d", len(all), all[0], len(h.history("u2")))
	}
}
