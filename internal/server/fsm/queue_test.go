package fsm_test

import (
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// TestTheSuccessorBeginsWhenTheFirstHasReleased: given a claim in the queue, when the first's alloc ends, then it waits
// on until the first's node has released the volume, and begins by the report that says so.
func TestTheSuccessorBeginsWhenTheFirstHasReleased(t *testing.T) {
	h := claimed(t)
	other := aNode()
	h.c.Must(t, &fsm.NodeRegister{Node: other})
	next := anAlloc(h.c, "db", other.ID)
	waits := aClaim(h.vol, next, volume.SingleNodeWriter, volume.Queued)
	waits.Reason = "the first has it"
	h.c.Must(t, &fsm.PlanApply{
		Place:  []*alloc.Alloc{next},
		Claims: []*volume.Claim{waits},
	})
	is := func(what string, want volume.ClaimState) {
		t.Helper()
		cl := h.c.Store.Snapshot().Claim(nil, volume.ClaimKey{Volume: h.vol, Alloc: next.ID})
		if cl == nil || cl.State != want {
			t.Fatalf("%s the successor's claim is %+v", what, cl)
		}
	}
	staged := volume.InventoryEntry{StagingKey: h.key, Volume: h.vol, Staging: volume.Present}
	h.says(t, true, h.epoch.Index, staged)
	if h.claim() == nil || h.claim().State != volume.Held {
		t.Fatalf("a running alloc's claim is %+v by its node's report", h.claim())
	}
	h.says(t, false, h.epoch.Index, volume.InventoryEntry{StagingKey: h.key, Volume: h.vol})
	if h.claim() == nil || h.claim().State != volume.Held {
		t.Fatalf("a running alloc's claim is %+v although its node only has nothing yet", h.claim())
	}
	h.says(t, false, h.epoch.Index, staged)
	h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: []*alloc.Alloc{
		{ID: h.alloc, Node: h.node, ClientStatus: alloc.ClientComplete}}})
	is("while the first's node has the volume staged", volume.Queued)
	h.says(t, false, h.epoch.Index, volume.InventoryEntry{StagingKey: h.key, Volume: h.vol, Staging: volume.Uncertain})
	is("while the first's node may have it staged", volume.Queued)
	want := volume.InventoryPublication{Alloc: h.alloc, Epoch: h.epoch, Wanted: true}
	h.says(t, false, h.epoch.Index, volume.InventoryEntry{StagingKey: h.key, Volume: h.vol,
		Publications: []volume.InventoryPublication{want}})
	is("while the first's node is about to mount it", volume.Queued)
	h.says(t, false, h.epoch.Index, volume.InventoryEntry{StagingKey: h.key, Volume: h.vol})
	is("after the first's node released it", volume.Held)
	now := h.c.Store.Snapshot()
	if cl := now.Claim(nil, volume.ClaimKey{Volume: h.vol, Alloc: next.ID}); !cl.Since.Equal(now.Stamp().Time) ||
		cl.Reason != "" {
		t.Errorf("it is held since %s (%q), not since %s", cl.Since, cl.Reason, now.Stamp().Time)
	}
	if h.claim() != nil {
		t.Errorf("the first's claim is %+v", h.claim())
	}
	if v := h.c.Store.Snapshot().Volume(nil, h.vol); v.Status.AccessMode != volume.SingleNodeWriter {
		t.Errorf("the successor uses it as %q", v.Status.AccessMode)
	}
}

// TestAPlanThatCameTooLateForItsQueueHoldsAtOnce: given a plan that queues an alloc behind another, when that has
// released the volume before the plan is applied, then the claim is held: nothing would ever wake it in the queue.
func TestAPlanThatCameTooLateForItsQueueHoldsAtOnce(t *testing.T) {
	h := claimed(t)
	other := aNode()
	h.c.Must(t, &fsm.NodeRegister{Node: other})
	next := anAlloc(h.c, "db", other.ID)
	h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: []*alloc.Alloc{
		{ID: h.alloc, Node: h.node, ClientStatus: alloc.ClientComplete}}})
	h.says(t, true, h.epoch.Index, volume.InventoryEntry{StagingKey: h.key, Volume: h.vol})
	if h.claim() != nil {
		t.Fatalf("the first's claim is %+v", h.claim())
	}
	h.c.Must(t, &fsm.PlanApply{
		Place:  []*alloc.Alloc{next},
		Claims: []*volume.Claim{aClaim(h.vol, next, volume.SingleNodeWriter, volume.Queued)},
	})
	cl := h.c.Store.Snapshot().Claim(nil, volume.ClaimKey{Volume: h.vol, Alloc: next.ID})
	if cl == nil || cl.State != volume.Held || cl.Epoch.Index == 0 {
		t.Fatalf("the successor's claim is %+v", cl)
	}
	if v := h.c.Store.Snapshot().Volume(nil, h.vol); v.Status.AccessMode != volume.SingleNodeWriter {
		t.Errorf("the successor uses it as %q", v.Status.AccessMode)
	}
}

// TestClaimsThatEndTogetherWaitForTheStaging: given two claims of a node, when the one ends, then the other's staging
// does not hold it; when both are being released, then they wait for the staging to go.
func TestClaimsThatEndTogetherWaitForTheStaging(t *testing.T) {
	c := localstate.New(t)
	keys := withClaims(t, c, volume.Held, "a", "b")
	id := volume.ID{Namespace: ids.DefaultNamespace, ID: "v0"}
	var prev uint64
	says := func(staging volume.Presence) {
		t.Helper()
		c.Must(t, &fsm.InventoryApply{
			Node:       "n",
			Full:       true,
			AllocIndex: 1,
			Prev:       prev,
			Entries:    []volume.InventoryEntry{entryOf(keys[0], staging)},
		})
		prev = c.Store.Snapshot().InventoryHead(nil, "n").ModifyIndex
	}
	release := func(a ids.Alloc) {
		t.Helper()
		err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			cl := *tx.Claim(nil, volume.ClaimKey{Volume: id, Alloc: a})
			cl.State = volume.Releasing
			tx.PutClaim(&cl)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	left := func() (out string) {
		for cl := range c.Store.Snapshot().ClaimsOf(nil, keys[0]) {
			out += string(cl.Alloc)
		}
		return out
	}
	release("a")
	release("b")
	if says(volume.Present); left() != "ab" {
		t.Fatalf("while it is staged the claims %q are left", left())
	}
	if says(volume.Absent); left() != "" {
		t.Fatalf("after it was unstaged the claims %q are left", left())
	}
	keys = withClaims(t, c, volume.Held, "a", "b")
	release("a")
	if says(volume.Present); left() != "b" {
		t.Fatalf("while it is staged for b the claims %q are left", left())
	}
}

// TestAnExpansionIsOverWhenANodeReachedTheSize: a node that has a part of it has not.
func TestAnExpansionIsOverWhenANodeReachedTheSize(t *testing.T) {
	h := claimed(t)
	err := h.c.Store.Write(h.c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		v := *tx.Volume(nil, h.vol)
		v.Status.Capacity, v.Status.NodeExpandPending = 2000, true
		tx.PutVolume(&v)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		size    int64
		pending bool
	}{{0, true}, {1000, true}, {1999, true}, {2000, false}} {
		h.says(t, true, h.epoch.Index, volume.InventoryEntry{
			StagingKey: h.key, Volume: h.vol, Staging: volume.Present, ExpandedTo: c.size})
		if got := h.c.Store.Snapshot().Volume(nil, h.vol).Status.NodeExpandPending; got != c.pending {
			t.Errorf("at %d of 2000 bytes it is pending: %v", c.size, got)
		}
	}
}

// TestAPlanKeepsToWhatItMayTouch: only queued claims give way; an update in place keeps the claim with its epoch, which
// the node holds; what has ended is not placed again; nothing is claimed that is not there to be used.
func TestAPlanKeepsToWhatItMayTouch(t *testing.T) {
	h := claimed(t)
	key := volume.ClaimKey{Volume: h.vol, Alloc: h.alloc}
	h.c.Must(t, &fsm.PlanApply{QueueDrop: []volume.ClaimKey{key}})
	if h.claim() == nil {
		t.Fatal("a held claim gave way")
	}
	h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: []*alloc.Alloc{
		{ID: h.alloc, Node: h.node, ClientStatus: alloc.ClientRunning}}})
	same := anAlloc(h.c, "db", h.node)
	same.ID = h.alloc
	h.c.Must(t, &fsm.PlanApply{
		Place:  []*alloc.Alloc{same},
		Claims: []*volume.Claim{aClaim(h.vol, same, volume.SingleNodeWriter, volume.Held)},
	})
	s := h.c.Store.Snapshot()
	if cl, a := h.claim(), s.Alloc(nil, h.alloc); cl.Epoch != h.epoch || a.ClientStatus != alloc.ClientRunning ||
		a.AllocModifyIndex != s.Index() {
		t.Errorf("updated in place it is %s, changed at %d, with a claim of %v", a.ClientStatus, a.AllocModifyIndex,
			cl.Epoch)
	}
	other := aNode()
	h.c.Must(t, &fsm.NodeRegister{Node: other})
	moved := anAlloc(h.c, "db", other.ID)
	cl := aClaim(h.vol, moved, volume.SingleNodeWriter, volume.Releasing)
	plan := func() fsm.Command {
		c, a := *cl, *moved
		return &fsm.PlanApply{Place: []*alloc.Alloc{&a}, Claims: []*volume.Claim{&c}}
	}
	refused(t, h.c, fault.Conflict, "a claim that begins with its end", plan())
	cl.State = volume.Queued
	cl.AccessMode = volume.MultiNodeReader
	refused(t, h.c, fault.Conflict, "a claim of another mode", plan())
	cl.AccessMode = volume.SingleNodeWriter
	for _, phase := range []volume.Phase{volume.PhaseCreating, volume.PhaseDeleting, volume.PhaseFailed,
		volume.PhaseConflict} {
		inPhase(t, h, phase)
		refused(t, h.c, fault.Conflict, "a claim of a volume that is "+string(phase), plan())
	}
	inPhase(t, h, volume.PhaseExpanding)
	h.c.Must(t, plan())
	h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: []*alloc.Alloc{
		{ID: h.alloc, Node: h.node, ClientStatus: alloc.ClientComplete}}})
	again := anAlloc(h.c, "db", h.node)
	again.ID = h.alloc
	refused(t, h.c, fault.Conflict, "an alloc that has ended", &fsm.PlanApply{Place: []*alloc.Alloc{again}})
}

func inPhase(t *testing.T, h *held, phase volume.Phase) {
	t.Helper()
	err := h.c.Store.Write(h.c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		v := *tx.Volume(nil, h.vol)
		v.Status.Phase = phase
		tx.PutVolume(&v)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
