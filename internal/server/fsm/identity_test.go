package fsm_test

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

func (h *held) snap() *state.Snap { return h.c.Store.Snapshot() }

func (h *held) try(t *testing.T, cmd fsm.Command) error {
	t.Helper()
	_, _, err := h.c.Propose(t.Context(), cmd)
	return err
}

func (h *held) mounted(staging, publication volume.Presence) volume.InventoryEntry {
	return volume.InventoryEntry{
		StagingKey: h.key,
		Volume:     h.vol,
		Staging:    staging,
		Publications: []volume.InventoryPublication{
			{Alloc: h.alloc, Epoch: h.epoch, Presence: publication, Received: h.snap().Point(nil)},
		},
	}
}

// lost is a claimed volume that was forgotten by force after its node went down with the volume mounted.
func lost(t *testing.T) *held {
	t.Helper()
	h := claimed(t)
	h.says(t, true, h.epoch.Index, h.mounted(volume.Present, volume.Present))
	h.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{h.node}, Status: node.StatusDown, Seed: ids.New()})
	h.c.Must(t, &fsm.VolumeForget{
		ID:     h.vol,
		Seen:   h.snap().Volume(nil, h.vol).ModifyIndex,
		Force:  true,
		Reason: "the rack burnt",
	})
	return h
}

func (h *held) registers(t *testing.T, name ids.Volume, external string) (*volume.Volume, error) {
	t.Helper()
	v := &volume.Volume{
		ID:   volume.ID{Namespace: h.vol.Namespace, ID: name},
		UID:  ids.New(),
		Spec: volume.Spec{Plugin: h.key.Plugin, Registered: true},
		Status: volume.Status{
			Phase:      volume.PhaseReady,
			ExternalID: external,
			Presence:   volume.Present,
		},
	}
	out, _, err := h.c.Propose(t.Context(), &fsm.VolumePut{Volume: v})
	if err != nil {
		return nil, err
	}
	return out.(*volume.Volume), nil
}

func (h *held) deletes(t *testing.T, v *volume.Volume) error {
	t.Helper()
	n := *h.snap().Volume(nil, v.ID)
	n.Status.Phase = volume.PhaseDeleting
	return h.try(t, &fsm.VolumePut{Volume: &n, Seen: n.ModifyIndex})
}

// A provider's volume that was forgotten by force, with a mount on a node that is gone, comes back under another name:
// nobody else writes to it, and nobody deletes it, before that node said that it released it.
func TestAVolumeForgottenByForceComesBackWithAllThatHoldsIt(t *testing.T) {
	h := lost(t)
	uid := h.snap().Tombstone(nil, h.key).UID
	v, err := h.registers(t, "db2", h.key.ExternalID)
	if err != nil {
		t.Fatal(err)
	}
	if v.UID != uid || h.snap().Tombstone(nil, h.key) != nil {
		t.Errorf("its identity is %s, it was %s", v.UID, uid)
	}
	if v.Status.AccessMode != volume.SingleNodeWriter {
		t.Errorf("it counts as used as %q", v.Status.AccessMode)
	}
	if err := h.deletes(t, v); !fault.Has(err, fault.Busy) {
		t.Errorf("deleted while a node may have it mounted: %v", err)
	}
	other := aNode()
	h.c.Must(t, &fsm.NodeRegister{Node: other})
	a := anAlloc(h.c, "db", other.ID)
	claim := aClaim(v.ID, a, volume.SingleNodeWriter, volume.Held)
	err = h.try(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}, Claims: []*volume.Claim{claim}})
	if !fault.Has(err, fault.Busy) {
		t.Errorf("a second writer is placed: %v", err)
	}
	h.c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: h.node, Name: "n", SecretHash: "h"}})
	h.c.Must(t, &fsm.InventoryApply{Node: other.ID, Full: true})
	h.says(t, true, h.epoch.Index, h.mounted(volume.Absent, volume.Absent))
	if h.claim() != nil {
		t.Fatal("its node released it, the claim stays")
	}
	if err := h.deletes(t, v); err != nil {
		t.Errorf("nobody holds it any more: %v", err)
	}
}

// A name that is given to another of the provider's volumes inherits nothing.
func TestANameGivenToAnotherVolumeInheritsNothing(t *testing.T) {
	h := lost(t)
	v, err := h.registers(t, h.vol.ID, "another")
	if err != nil {
		t.Fatal(err)
	}
	if v.Status.AccessMode != "" {
		t.Errorf("it counts as used as %q", v.Status.AccessMode)
	}
	other := aNode()
	h.c.Must(t, &fsm.NodeRegister{Node: other})
	a := anAlloc(h.c, "db", other.ID)
	claim := aClaim(v.ID, a, volume.MultiNodeReader, volume.Held)
	h.c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}, Claims: []*volume.Claim{claim}})
	// The one that was forgotten ends by its own node's word alone.
	h.c.Must(t, &fsm.InventoryApply{Node: other.ID, Full: true})
	if h.claim() == nil {
		t.Error("the claim of the forgotten volume ended without a word of its node")
	}
	if h.snap().Tombstone(nil, h.key) == nil {
		t.Error("the forgotten volume left no trace while a node may have it mounted")
	}
	h.says(t, true, h.epoch.Index)
	if h.claim() != nil || h.snap().Tombstone(nil, h.key) != nil {
		t.Error("its node holds nothing, something of it stays")
	}
	if h.snap().Claim(nil, claim.Key()) == nil {
		t.Error("the claim of the other volume went with it")
	}
}

// Given a volume that was forgotten by force, released by its node, and registered once more, which is another identity
// then, when the node says something of the earlier one, as a store that was rolled back does, then the claim of the
// later one ends only when the node knows of that one and holds nothing of the provider's volume: what it says is of
// the one staging that there is of it, whoever had it made.
func TestAReportOfAnEarlierRegistrationEndsNoClaimOfALater(t *testing.T) {
	h := lost(t)
	earlier := h.snap().Tombstone(nil, h.key).UID
	h.c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: h.node, Name: "n", SecretHash: "h"}})
	h.says(t, true, h.epoch.Index, h.mounted(volume.Absent, volume.Absent))
	v, err := h.registers(t, "db2", h.key.ExternalID)
	if err != nil {
		t.Fatal(err)
	}
	if v.UID == earlier || h.claim() != nil {
		t.Fatalf("of the earlier one something is left: %+v, %+v", v, h.claim())
	}
	a := anAlloc(h.c, "db", h.node)
	later := aClaim(v.ID, a, volume.SingleNodeWriter, volume.Held)
	h.c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}, Claims: []*volume.Claim{later}})
	h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: []*alloc.Alloc{
		{ID: a.ID, Node: h.node, ClientStatus: alloc.ClientComplete}}})
	claim := func() *volume.Claim { return h.snap().Claim(nil, later.Key()) }
	if cl := claim(); cl == nil || cl.UID != v.UID || cl.State != volume.Releasing {
		t.Fatalf("the claim of the later one is %+v", cl)
	}
	now := claim().Epoch.Index
	for what, c := range map[string]struct {
		at    uint64
		entry volume.InventoryEntry
	}{
		"before it knew of the later one, that it holds nothing": {now - 1, h.mounted(volume.Absent, volume.Absent)},
		"that the volume is staged":                              {now, h.mounted(volume.Present, volume.Absent)},
		"that the volume may be staged":                          {now, h.mounted(volume.Uncertain, volume.Absent)},
	} {
		if h.says(t, true, c.at, c.entry); claim() == nil {
			t.Fatalf("a node says of the earlier one %s, and the claim of the later one ends", what)
		}
	}
	if h.says(t, true, now, h.mounted(volume.Absent, volume.Absent)); claim() != nil {
		t.Error("the node knows of the later one and holds nothing of the volume, the claim stays")
	}
}

// By force nothing is forgotten that an alloc can still use: the endpoint's look may be older than the placement.
func TestForceIsHeldAgainstTheStateInWhichItIsApplied(t *testing.T) {
	h := claimed(t)
	err := h.try(t, &fsm.VolumeForget{ID: h.vol, Seen: h.snap().Volume(nil, h.vol).ModifyIndex, Force: true})
	if !fault.Has(err, fault.Busy) || h.snap().Volume(nil, h.vol) == nil {
		t.Errorf("a running allocation lost its volume: %v", err)
	}
}

// A deletion that was asked for before a claim was made finds the claim when it is applied.
func TestADeletionIsHeldAgainstTheStateInWhichItIsApplied(t *testing.T) {
	h := claimed(t)
	h.says(t, true, h.epoch.Index)
	if err := h.deletes(t, h.snap().Volume(nil, h.vol)); !fault.Has(err, fault.Busy) {
		t.Errorf("deleted under a claim: %v", err)
	}
}

// What a volume or a snapshot is being made from stays, under whichever id it was named.
func TestASourceStaysWhileSomethingIsMadeFromIt(t *testing.T) {
	for what, id := range map[string]string{"its name": "", "the provider's id": "external"} {
		t.Run(what, func(t *testing.T) {
			h := claimed(t)
			h.says(t, true, h.epoch.Index)
			src, err := h.registers(t, "src", "x-src")
			if err != nil {
				t.Fatal(err)
			}
			clone := &volume.Volume{
				ID:     volume.ID{Namespace: h.vol.Namespace, ID: "clone"},
				UID:    ids.New(),
				Spec:   volume.Spec{Plugin: h.key.Plugin, CloneID: "src"},
				Status: volume.Status{Phase: volume.PhaseCreating},
			}
			if id != "" {
				clone.Spec.CloneID = src.Status.ExternalID
			}
			h.c.Must(t, &fsm.VolumePut{Volume: clone})
			err = h.deletes(t, src)
			if !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), `"clone"`) {
				t.Errorf("deleted while it is being cloned: %v", err)
			}
			done := *h.snap().Volume(nil, clone.ID)
			done.Status.Phase, done.Status.ExternalID = volume.PhaseReady, "x-clone"
			h.c.Must(t, &fsm.VolumePut{Volume: &done, Seen: done.ModifyIndex})
			if err := h.deletes(t, src); err != nil {
				t.Errorf("the clone is made: %v", err)
			}
			again := *clone
			again.ID.ID, again.UID = "late", ids.New()
			again.CreateIndex, again.ModifyIndex = 0, 0
			if err := h.try(t, &fsm.VolumePut{Volume: &again}); !fault.Has(err, fault.Busy) {
				t.Errorf("a clone of what is being deleted: %v", err)
			}
		})
	}
}

func TestASnapshotStaysWhileAVolumeIsMadeFromIt(t *testing.T) {
	h := claimed(t)
	cut := &volume.Snapshot{
		ID:               "record",
		ExternalID:       "snap",
		Plugin:           h.key.Plugin,
		Source:           h.vol.ID,
		SourceExternalID: h.key.ExternalID,
		Phase:            volume.PhaseReady,
	}
	h.c.Must(t, &fsm.SnapshotPut{Snapshot: cut})
	restored := func(name ids.Volume) *volume.Volume {
		return &volume.Volume{
			ID:     volume.ID{Namespace: h.vol.Namespace, ID: name},
			UID:    ids.New(),
			Spec:   volume.Spec{Plugin: h.key.Plugin, SnapshotID: "snap"},
			Status: volume.Status{Phase: volume.PhaseCreating},
		}
	}
	h.c.Must(t, &fsm.VolumePut{Volume: restored("first")})
	gone := func() error {
		n := *h.snap().VolumeSnapshot(nil, "record")
		n.Phase = volume.PhaseDeleting
		return h.try(t, &fsm.SnapshotPut{Snapshot: &n, Seen: n.ModifyIndex})
	}
	if err := gone(); !fault.Has(err, fault.Busy) {
		t.Errorf("deleted while a volume is made from it: %v", err)
	}
	done := *h.snap().Volume(nil, volume.ID{Namespace: h.vol.Namespace, ID: "first"})
	done.Status.Phase, done.Status.ExternalID = volume.PhaseReady, "x-first"
	h.c.Must(t, &fsm.VolumePut{Volume: &done, Seen: done.ModifyIndex})
	if err := gone(); err != nil {
		t.Errorf("the volume is made: %v", err)
	}
	if err := h.try(t, &fsm.VolumePut{Volume: restored("late")}); !fault.Has(err, fault.Busy) {
		t.Errorf("a volume from what is being deleted: %v", err)
	}
}

// A provider that may have begun to create must be asked for the same again, or it answers that the name exists.
func TestTheArgumentsOfACreationThatMayHaveBegunStay(t *testing.T) {
	h := claimed(t)
	v := &volume.Volume{
		ID:     volume.ID{Namespace: h.vol.Namespace, ID: "new"},
		UID:    ids.New(),
		Spec:   volume.Spec{Plugin: h.key.Plugin, CapacityMin: 1000},
		Status: volume.Status{Phase: volume.PhaseCreating, Presence: volume.Absent},
	}
	h.c.Must(t, &fsm.VolumePut{Volume: v})
	change := func(min int64, p volume.Presence) error {
		n := *h.snap().Volume(nil, v.ID)
		n.Spec.CapacityMin, n.Status.Presence = min, p
		return h.try(t, &fsm.VolumePut{Volume: &n, Seen: n.ModifyIndex})
	}
	if err := change(2000, volume.Absent); err != nil {
		t.Errorf("before the provider was asked: %v", err)
	}
	if err := change(2000, volume.Uncertain); err != nil {
		t.Errorf("the intent: %v", err)
	}
	if err := change(3000, volume.Uncertain); !fault.Has(err, fault.Busy) {
		t.Errorf("after the provider was asked: %v", err)
	}
}

// The word that a node is dead does not end the claim of one that came back meanwhile.
func TestAnAttestationOfANodeThatIsBackEndsNothing(t *testing.T) {
	h := claimed(t)
	proof := &fsm.ClaimProof{
		Claim:  volume.ClaimKey{Volume: h.vol, Alloc: h.alloc},
		Epoch:  h.epoch,
		Proof:  volume.ProofAttested,
		Reason: "it burnt",
	}
	if err := h.try(t, proof); !fault.Has(err, fault.Conflict) || h.claim() == nil {
		t.Errorf("the node is up: %v", err)
	}
	h.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{h.node}, Status: node.StatusDown, Seed: ids.New()})
	if err := h.try(t, proof); err != nil || h.claim() != nil {
		t.Errorf("the node is down: %v", err)
	}
}

// A volume of several nodes has grown when it has grown on each of them.
func TestOneNodesGrowthIsOneNodes(t *testing.T) {
	c := localstate.New(t)
	keys := withClaims(t, c, volume.Held, "a")
	pending := func() bool { return c.Store.Snapshot().VolumeOf(nil, keys[0]).Status.NodeExpandPending }
	n := *c.Store.Snapshot().VolumeOf(nil, keys[0])
	n.Status.Capacity, n.Status.NodeExpandPending = 2000, true
	c.Must(t, &fsm.VolumePut{Volume: &n, Seen: n.ModifyIndex})
	prev := map[ids.Node]uint64{}
	says := func(id ids.Node, to int64) {
		e := entryOf(keys[0], volume.Present)
		e.ExpandedTo = to
		r := c.Must(t, &fsm.InventoryApply{
			Node:    id,
			Full:    true,
			Prev:    prev[id],
			Entries: []volume.InventoryEntry{e},
		}).(*wire.InventoryReply)
		prev[id] = r.Head
	}
	says("n", 0)
	says("cut off", 0)
	if says("n", 2000); !pending() {
		t.Error("it counts as grown while another node has it small")
	}
	if says("cut off", 2000); pending() {
		t.Error("it has grown on every node, and does not count as grown")
	}
}

// A secret lives as long as anything needs it, and no longer.
func TestASecretLivesAsLongAsAnythingNeedsIt(t *testing.T) {
	there := func(h *held, name string) bool { return h.snap().Secret(nil, name) != nil }
	withSecret := func(t *testing.T) (*held, *volume.Volume) {
		h := claimed(t)
		h.says(t, true, h.epoch.Index)
		v := &volume.Volume{
			ID:     volume.ID{Namespace: h.vol.Namespace, ID: "s"},
			UID:    "u",
			Spec:   volume.Spec{Plugin: "p", Secrets: "volume/u"},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x-s"},
		}
		h.c.Must(t, &fsm.VolumePut{Volume: v, Sealed: []byte("sealed")})
		return h, h.snap().Volume(nil, v.ID)
	}
	forget := func(t *testing.T, h *held, v *volume.Volume) {
		h.c.Must(t, &fsm.VolumeForget{ID: v.ID, Seen: h.snap().Volume(nil, v.ID).ModifyIndex})
	}
	t.Run("refused", func(t *testing.T) {
		h, v := withSecret(t)
		n := *v
		n.Spec.Secrets = "volume/other"
		if err := h.try(t, &fsm.VolumePut{Volume: &n, Seen: v.ModifyIndex + 1, Sealed: []byte("x")}); err == nil {
			t.Fatal("a write that read an older state is taken")
		}
		if there(h, "volume/other") {
			t.Error("a refused write left its secret")
		}
	})
	t.Run("a snapshot needs it", func(t *testing.T) {
		h, v := withSecret(t)
		h.c.Must(t, &fsm.SnapshotPut{Snapshot: &volume.Snapshot{
			ID:               "cut",
			Plugin:           "p",
			Source:           v.ID.ID,
			SourceExternalID: "x-s",
			Secrets:          "volume/u",
			Phase:            volume.PhaseReady,
		}})
		if forget(t, h, v); !there(h, "volume/u") {
			t.Error("the snapshot can never be deleted: its secret is gone")
		}
		if h.c.Must(t, &fsm.SnapshotForget{ID: "cut"}); there(h, "volume/u") {
			t.Error("nothing needs the secret any more, it stays")
		}
	})
	t.Run("an attachment needs it", func(t *testing.T) {
		h, v := withSecret(t)
		at := &volume.Attachment{
			Volume:     v.ID,
			Node:       h.node,
			Plugin:     "p",
			ExternalID: "x-s",
			Secrets:    "volume/u",
			Presence:   volume.Present,
		}
		h.c.Must(t, &fsm.AttachmentPut{Attachment: at})
		h.c.Must(t, &fsm.VolumeForget{ID: v.ID, Seen: v.ModifyIndex, Force: true})
		if !there(h, "volume/u") {
			t.Error("the volume can never be detached: its secret is gone")
		}
		at = h.snap().Attachment(nil, at.Key())
		if h.c.Must(t, &fsm.AttachmentForget{Key: fsm.RefTo(at), Seen: at.ModifyIndex}); there(h, "volume/u") {
			t.Error("nothing needs the secret any more, it stays")
		}
	})
}
