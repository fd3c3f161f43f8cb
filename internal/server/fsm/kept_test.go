package fsm_test

import (
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/pluginjobs"
)

// writes changes the state beside the commands.
func (h *held) writes(t *testing.T, change func(*state.Tx)) {
	t.Helper()
	stamp := h.snap().Stamp()
	stamp.Index++
	if err := h.c.Store.Write(stamp, func(tx *state.Tx) error { change(tx); return nil }); err != nil {
		t.Fatal(err)
	}
	h.c.Skip(1)
}

// Given a secret that a volume and its attachment have, when the attachment is forgotten, then the secret is there, for
// the volume needs it; and it goes with the last that has it, whichever that is.
func TestASecretIsThereForTheLastThatHasIt(t *testing.T) {
	for _, volumeFirst := range []bool{false, true} {
		h := claimed(t)
		h.writes(t, func(tx *state.Tx) {
			tx.PutSecret(&state.Sealed{Name: "s", Data: []byte("sealed")})
			v := *tx.Volume(nil, h.vol)
			v.Spec.Secrets = "s"
			v.Status.AccessMode, v.Status.AttachmentMode = "", ""
			tx.PutVolume(&v)
			tx.DeleteClaim(volume.ClaimKey{Volume: h.vol, Alloc: h.alloc})
			a := attachmentOf(h, volume.Absent)
			a.Secrets = "s"
			tx.PutAttachment(a)
		})
		detach := func() {
			a := h.snap().Attachment(nil, attachmentOf(h, volume.Absent).Key())
			h.c.Must(t, &fsm.AttachmentForget{Key: fsm.RefTo(a), Seen: a.ModifyIndex})
		}
		forget := func() {
			v := *h.snap().Volume(nil, h.vol)
			v.Spec.Secrets = ""
			h.c.Must(t, &fsm.VolumePut{Volume: &v, Seen: v.ModifyIndex})
		}
		steps := []func(){detach, forget}
		if volumeFirst {
			steps = []func(){forget, detach}
		}
		steps[0]()
		if h.snap().Secret(nil, "s") == nil {
			t.Errorf("the secret is gone, and the other has it (the volume first: %v)", volumeFirst)
		}
		steps[1]()
		if h.snap().Secret(nil, "s") != nil {
			t.Errorf("nobody has the secret, and it is there (the volume first: %v)", volumeFirst)
		}
	}
}

// Given an alloc that has ended for good, or that runs, whose claim is being released, when that ends by a proof, then
// the alloc stays as it is: only of one of which nothing is known is said that it is lost.
func TestAProofMakesNobodyLostWhoIsKnown(t *testing.T) {
	h := claimed(t)
	h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: []*alloc.Alloc{
		{ID: h.alloc, Node: h.node, ClientStatus: alloc.ClientComplete}}})
	h.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{h.node}, Status: node.StatusDown, Seed: ids.New()})
	h.c.Must(t, &fsm.ClaimProof{
		Claim: volume.ClaimKey{Volume: h.vol, Alloc: h.alloc}, Epoch: h.epoch, Proof: volume.ProofAttested, By: "ann"})
	if a := h.snap().Alloc(nil, h.alloc); a.ClientStatus != alloc.ClientComplete || h.claim() != nil {
		t.Errorf("the alloc is %s (%s), its claim %+v", a.ClientStatus, a.DesiredDescription, h.claim())
	}
}

// Given two plugins that have a volume of the same id attached to one node, when the one's attachment is forgotten,
// then that of the other stays, whichever was first.
func TestAnAttachmentIsItsPluginsOwn(t *testing.T) {
	for _, id := range []ids.Plugin{"a-plugin", "z-plugin"} {
		h := claimed(t)
		other := attachmentOf(h, volume.Present)
		other.Plugin, other.Volume.ID = id, "other"
		h.writes(t, func(tx *state.Tx) {
			tx.PutAttachment(attachmentOf(h, volume.Present))
			tx.PutAttachment(other)
		})
		seen := h.snap().Attachment(nil, other.Key()).ModifyIndex
		h.c.Must(t, &fsm.AttachmentForget{Key: fsm.RefTo(other), Seen: seen})
		first := attachmentOf(h, volume.Absent).Key()
		if h.snap().Attachment(nil, first) == nil || h.snap().Attachment(nil, other.Key()) != nil {
			t.Errorf("beside plugin %s the wrong one is gone", id)
		}
	}
}

// Given a volume that was forgotten by force and of which something is left, when the creation of another one is
// answered with its id, then that is in conflict and has nothing of the old, which stays as it is.
func TestANewVolumeIsNotGivenWhatIsLeftOfAnOldOne(t *testing.T) {
	h := lost(t)
	old := *h.snap().Tombstone(nil, h.key)
	v := &volume.Volume{
		ID:     volume.ID{Namespace: h.vol.Namespace, ID: "new"},
		UID:    "of the new",
		Spec:   volume.Spec{Plugin: h.key.Plugin},
		Status: volume.Status{Phase: volume.PhaseCreating},
	}
	h.c.Must(t, &fsm.VolumePut{Volume: v})
	made := *h.snap().Volume(nil, v.ID)
	made.Status.Phase, made.Status.Presence = volume.PhaseReady, volume.Present
	made.Status.ExternalID = h.key.ExternalID
	h.c.Must(t, &fsm.VolumePut{Volume: &made, Seen: made.ModifyIndex})
	got := h.snap().Volume(nil, v.ID)
	if got.Status.Phase != volume.PhaseConflict || got.UID != "of the new" || got.Status.AccessMode != "" {
		t.Errorf("it is %s, known as %q, used as %q", got.Status.Phase, got.UID, got.Status.AccessMode)
	}
	if now := h.snap().Tombstone(nil, h.key); now == nil || now.UID != old.UID {
		t.Errorf("of the old is left %+v", now)
	}
}

// Given a volume that is being deleted, when a claim or an attachment of it is there all the same, then it is not
// forgotten; and no snapshot is made of it.
func TestWhatIsBeingDeletedIsForgottenWhenNothingIsLeft(t *testing.T) {
	for what, left := range map[string]func(*held, *state.Tx){
		"a claim": func(*held, *state.Tx) {},
		"an attachment": func(h *held, tx *state.Tx) {
			tx.DeleteClaim(volume.ClaimKey{Volume: h.vol, Alloc: h.alloc})
			tx.PutAttachment(attachmentOf(h, volume.Present))
		},
	} {
		h := claimed(t)
		h.writes(t, func(tx *state.Tx) {
			v := *tx.Volume(nil, h.vol)
			v.Status.Phase = volume.PhaseDeleting
			tx.PutVolume(&v)
			left(h, tx)
		})
		refused(t, h.c, fault.Busy, "forgotten with "+what,
			&fsm.VolumeForget{ID: h.vol, Seen: h.snap().Volume(nil, h.vol).ModifyIndex})
		refused(t, h.c, fault.Busy, "a snapshot of what is being deleted", &fsm.SnapshotPut{Snapshot: &volume.Snapshot{
			ID:               "s",
			Name:             "s",
			Plugin:           h.key.Plugin,
			Source:           h.vol.ID,
			SourceExternalID: h.key.ExternalID,
			Phase:            volume.PhaseCreating,
		}})
	}
}

// Given a node, when another machine registers as it, with another secret, then that is refused, and the first is as it
// was.
func TestANodeIsWhoKnowsItsSecret(t *testing.T) {
	h := claimed(t)
	before := h.snap().Node(nil, h.node)
	refused(t, h.c, fault.Denied, "another machine's registration",
		&fsm.NodeRegister{Node: &node.Node{ID: h.node, Name: "another", SecretHash: "of another"}})
	if h.snap().Node(nil, h.node) != before {
		t.Error("it was changed")
	}
}

// Given a plugin that a volume refers to, when it is to be forgotten, then that is refused; without the volume it goes.
func TestAPluginStaysForItsVolumes(t *testing.T) {
	h := claimed(t)
	refused(t, h.c, fault.Busy, "a plugin with a volume", &fsm.PluginForget{ID: h.key.Plugin})
	h.writes(t, func(tx *state.Tx) { tx.DeleteVolume(h.vol) })
	h.c.Must(t, &fsm.PluginForget{ID: h.key.Plugin})
}

// Given a volume that has to be attached, when a node reports a mount at its path which it has no record of, then an
// attachment is there that is not certain: it is undone before the volume is attached elsewhere.
func TestAMountKnownByItsPathIsAnAttachment(t *testing.T) {
	h := claimed(t)
	key := attachmentOf(h, volume.Absent).Key()
	h.c.Must(t, &fsm.PluginLearn{Record: &plugin.Record{ID: h.key.Plugin, Negotiated: true, NeedsAttach: true}})
	h.writes(t, func(tx *state.Tx) {
		tx.DeleteClaim(volume.ClaimKey{Volume: h.vol, Alloc: h.alloc})
		n := *tx.Node(nil, h.node)
		n.CSI = []*plugin.Instance{{
			Plugin:      h.key.Plugin,
			Role:        plugin.RoleNode,
			Node:        h.node,
			StorageNode: "host-1",
		}}
		pluginjobs.Put(tx, &n)
	})
	dir := ids.Segment(string(h.key.Plugin))
	h.c.Must(t, &fsm.InventoryApply{Node: h.node, Full: true, Unknown: []volume.UnknownMount{
		{Path: "/data/csi/" + dir + "/" + volume.StagingTail(h.key.ExternalID) + "/x", Dir: dir, FSType: "ext4"},
	}})
	if a := h.snap().Attachment(nil, key); a == nil || a.Presence != volume.Uncertain {
		t.Errorf("its attachment is %+v", a)
	}
}
