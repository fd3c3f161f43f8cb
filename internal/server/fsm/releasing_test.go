package fsm_test

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/wire"
)

// released is a claimed volume whose alloc has ended on its node; the node has not reported yet.
func released(t *testing.T) *held {
	t.Helper()
	h := claimed(t)
	h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: []*alloc.Alloc{
		{ID: h.alloc, Node: h.node, ClientStatus: alloc.ClientComplete}}})
	if cl := h.claim(); cl == nil || cl.State != volume.Releasing {
		t.Fatalf("after its alloc ended the claim is %+v", cl)
	}
	return h
}

func (h *held) claim() *volume.Claim {
	return h.c.Store.Snapshot().Claim(nil, volume.ClaimKey{Volume: h.vol, Alloc: h.alloc})
}

// says applies a report at a set of allocs, in the order of the reports.
func (h *held) says(t *testing.T, full bool, allocIndex uint64, entries ...volume.InventoryEntry) {
	t.Helper()
	cmd := &fsm.InventoryApply{
		Node:       h.node,
		Full:       full,
		AllocIndex: allocIndex,
		Prev:       h.prev,
		Entries:    entries,
	}
	r := h.c.Must(t, cmd).(*wire.InventoryReply)
	if h.prev = r.Head; r.Stale {
		t.Fatalf("the report is refused as late: %+v", r)
	}
}

// A node that has not seen the claim's alloc yet says nothing of it by its silence.
func TestSilenceEndsAClaimOnlyOfANodeThatHasSeenIt(t *testing.T) {
	h := released(t)
	h.says(t, true, h.epoch.Index-1)
	if h.claim() == nil {
		t.Fatal("the claim ended by a report from before the node knew of it")
	}
	h.says(t, true, h.epoch.Index)
	if cl := h.claim(); cl != nil {
		t.Errorf("the node knows of the claim and holds nothing of it, the claim stays: %+v", cl)
	}
}

// A report that was taken before the claim says nothing of it, although one that was taken later came before.
func TestSilenceEndsNoClaimThatIsNewerThanTheReport(t *testing.T) {
	h := released(t)
	h.says(t, true, h.epoch.Index, h.mounted(volume.Present, volume.Present))
	h.says(t, true, h.epoch.Index-1)
	if h.claim() == nil {
		t.Fatal("the claim ended by a whole report of its node from before the claim")
	}
	h.says(t, false, h.epoch.Index-1)
	if h.claim() == nil {
		t.Fatal("the claim ended by a report of changes from before the claim")
	}
	h.says(t, false, h.epoch.Index)
	if cl := h.claim(); cl != nil {
		t.Errorf("the node has seen the claim and holds nothing of it, the claim stays: %+v", cl)
	}
}

// A part of an inventory says nothing of what it leaves out.
func TestSilenceEndsAClaimOnlyAfterAWholeReport(t *testing.T) {
	h := released(t)
	h.says(t, false, h.epoch.Index)
	h.says(t, false, h.epoch.Index+1)
	if h.claim() == nil {
		t.Fatal("the claim ended before the node ever reported all that it holds")
	}
	h.says(t, true, h.epoch.Index+1)
	if cl := h.claim(); cl != nil {
		t.Errorf("after the whole report the claim stays: %+v", cl)
	}
}

// Forgetting a volume unmounts nothing: what its node still has keeps the claim.
func TestAClaimOfAForgottenVolumeStaysUntilItsNodeIsQuiet(t *testing.T) {
	h := released(t)
	entry := func(staging, publication volume.Presence) volume.InventoryEntry {
		return volume.InventoryEntry{StagingKey: h.key, Volume: h.vol, Staging: staging,
			Publications: []volume.InventoryPublication{
				{Alloc: h.alloc, Epoch: h.epoch, Presence: publication, Received: h.c.Store.Snapshot().Point(nil)}}}
	}
	h.says(t, true, h.epoch.Index, entry(volume.Present, volume.Present))
	v := h.c.Store.Snapshot().Volume(nil, h.vol)
	h.c.Must(t, &fsm.VolumeForget{ID: h.vol, Seen: v.ModifyIndex, Force: true})
	if h.c.Store.Snapshot().Volume(nil, h.vol) != nil || h.claim() == nil {
		t.Fatal("the volume is not forgotten, or its claim is")
	}
	for _, e := range []volume.InventoryEntry{entry(volume.Present, volume.Present),
		entry(volume.Present, volume.Uncertain),
		entry(volume.Present, volume.Absent), entry(volume.Uncertain, volume.Absent)} {
		if h.says(t, false, h.epoch.Index, e); h.claim() == nil {
			t.Fatalf("the claim ended while its node says %+v", e)
		}
	}
	other := aNode()
	h.c.Must(t, &fsm.NodeRegister{Node: other})
	h.c.Must(t, &fsm.InventoryApply{Node: other.ID, Full: true,
		Entries: []volume.InventoryEntry{entry(volume.Present, volume.Present)}})
	h.says(t, false, h.epoch.Index, entry(volume.Absent, volume.Absent))
	if cl := h.claim(); cl != nil {
		t.Errorf("its node holds nothing any more, the claim stays: %+v", cl)
	}
}

// A proof is of one claim. The alloc's next claim, of a later epoch, does not keep it.
func TestAProofGoesWhenTheNodeHoldsOnlyALaterClaimOfTheAlloc(t *testing.T) {
	h := claimed(t)
	h.c.Must(t, &fsm.ClaimProof{Claim: volume.ClaimKey{Volume: h.vol, Alloc: h.alloc},
		Epoch: h.epoch, Proof: volume.ProofFenced, Reason: "it burnt"})
	proofs := func() (n int) {
		for range h.c.Store.Snapshot().ClaimProofsOf(nil, h.node) {
			n++
		}
		return n
	}
	// So that none is void by silence.
	received := lineage.Point{Incarnation: h.epoch.Incarnation, Mark: "of another history", Index: 1}
	if h.report(t, received, false); proofs() != 1 {
		t.Fatalf("%d proofs while the node holds what was ended by proof", proofs())
	}
	ended := h.epoch
	h.epoch.Index++
	r := h.report(t, received, false)
	if proofs() != 0 {
		t.Errorf("the node holds nothing of %+v any more, its proof stays", ended)
	}
	if len(r.Void) != 0 {
		t.Errorf("the later claim is void by the earlier one's proof: %+v", r.Void)
	}
}

// TestWhatANodeCannotNameHoldsItsPluginsClaims: what is mounted there may be the volume, so the node's silence ends no
// claim of that plugin before it is gone.
func TestWhatANodeCannotNameHoldsItsPluginsClaims(t *testing.T) {
	h := released(t)
	says := func(unknown ...volume.UnknownMount) {
		t.Helper()
		h.prev = h.c.Must(t, &fsm.InventoryApply{
			Node:       h.node,
			Full:       true,
			AllocIndex: h.epoch.Index,
			Prev:       h.prev,
			Unknown:    unknown,
		}).(*wire.InventoryReply).Head
	}
	of := volume.UnknownMount{
		Path:   "/x",
		Dir:    ids.Segment(string(h.claim().Plugin)),
		Device: "0:9",
		FSType: "tmpfs",
	}
	other := of
	other.Dir = ids.Segment("another plugin")
	for _, list := range [][]volume.UnknownMount{{of}, {other, of}} {
		if says(list...); h.claim() == nil {
			t.Fatal("the claim ended beside a mount that may be its volume")
		}
	}
	if says(other); h.claim() != nil {
		t.Errorf("nothing of its plugin is unknown any more, the claim stays: %+v", h.claim())
	}
}

// TestHowANodeCameToHoldNothingIsKept: where that was not by the plugin's word alone, the volume's history says so.
func TestHowANodeCameToHoldNothingIsKept(t *testing.T) {
	h := released(t)
	looked := &volume.Undone{Proof: volume.ProofAttested, Reason: "looked", By: "me"}
	half := h.mounted(volume.Uncertain, volume.Absent) // it may be staged yet: nothing has ended, and nothing is kept
	half.Undone = looked
	h.says(t, true, h.epoch.Index, half)
	uid := h.claim().UID
	gone := h.mounted(volume.Absent, volume.Absent)
	gone.Undone = looked
	h.says(t, false, h.epoch.Index, gone)
	if cl := h.claim(); cl != nil {
		t.Fatalf("the claim stays: %+v", cl)
	}
	var kept []*volume.ProvenEnd
	for e := range h.c.Store.Snapshot().ProvenEnds(nil, uid) {
		kept = append(kept, e)
	}
	if len(kept) != 1 || kept[0].Proof != volume.ProofAttested || kept[0].Reason != "looked" || kept[0].By != "me" {
		t.Errorf("the history says %+v", kept)
	}
}
