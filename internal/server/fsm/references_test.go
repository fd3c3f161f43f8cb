package fsm_test

import (
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

func attachmentOf(h *held, is volume.Presence) *volume.Attachment {
	return &volume.Attachment{
		Volume:     h.vol,
		Node:       h.node,
		Plugin:     h.key.Plugin,
		ExternalID: h.key.ExternalID,
		Presence:   is,
	}
}

func refused(t *testing.T, c *localstate.Cluster, kind fault.Kind, what string, cmd fsm.Command) {
	t.Helper()
	if _, _, err := c.Propose(t.Context(), cmd); !fault.Has(err, kind) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestNobodyWritesOverWhatTheyHaveNotSeen: given a record that changed after it was read, when who read it writes or
// forgets it, then that is refused: a keeper of an earlier leadership undoes nothing.
func TestNobodyWritesOverWhatTheyHaveNotSeen(t *testing.T) {
	c := localstate.New(t)
	id := volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}
	key := volume.AttachmentKey{StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x"}, Node: "n"}
	vol := func(seen uint64, phase volume.Phase) fsm.Command {
		return &fsm.VolumePut{Seen: seen, Volume: &volume.Volume{
			ID: id, UID: "u", Spec: volume.Spec{Plugin: "p"}, Status: volume.Status{Phase: phase}}}
	}
	attached := func(seen uint64, phase volume.Phase) fsm.Command {
		return &fsm.AttachmentPut{Seen: seen, Attachment: &volume.Attachment{
			Volume:     id,
			Node:       "n",
			Plugin:     "p",
			ExternalID: "x",
			Presence:   volume.Uncertain,
			LastError:  string(phase),
		}}
	}
	for name, r := range map[string]struct {
		put    func(uint64, volume.Phase) fsm.Command
		index  func(*state.Snap) uint64
		phase  func(*state.Snap) string
		forget func(uint64) fsm.Command
	}{
		"volume": {vol,
			func(s *state.Snap) uint64 { return s.Volume(nil, id).ModifyIndex },
			func(s *state.Snap) string { return string(s.Volume(nil, id).Status.Phase) },
			func(seen uint64) fsm.Command { return &fsm.VolumeForget{ID: id, Seen: seen} }},
		"attachment": {attached,
			func(s *state.Snap) uint64 { return s.Attachment(nil, key).ModifyIndex },
			func(s *state.Snap) string { return s.Attachment(nil, key).LastError },
			func(seen uint64) fsm.Command {
				return &fsm.AttachmentForget{Seen: seen,
					Key: fsm.AttachmentRef{Volume: id, Node: "n", Plugin: "p", ExternalID: "x"}}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Must(t, r.put(0, volume.PhaseCreating))
			read := r.index(c.Store.Snapshot())
			c.Must(t, r.put(read, volume.PhaseReady))
			refused(t, c, fault.Conflict, "written on an old reading", r.put(read, volume.PhaseFailed))
			refused(t, c, fault.Conflict, "made although it is there", r.put(0, volume.PhaseFailed))
			if got := r.phase(c.Store.Snapshot()); got != string(volume.PhaseReady) {
				t.Errorf("it says %q", got)
			}
			refused(t, c, fault.Conflict, "forgotten on an old reading", r.forget(read))
			r.index(c.Store.Snapshot()) // it is there
		})
	}
}

// TestWhatIsUnknownIsLostWithItsClaim: given an alloc that writes a volume alone and waits for its silent node, when a
// person says that the node cannot write any more, then the alloc is lost in the same step, so that it ends when the
// node comes back, and its job is looked at; before that the claim is held, however long it takes.
func TestWhatIsUnknownIsLostWithItsClaim(t *testing.T) {
	h := claimed(t)
	j := *h.c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "db")
	g := *j.TaskGroups[0]
	g.Disconnect = &job.Disconnect{Reconcile: job.KeepBestScore}
	j.TaskGroups = []*job.TaskGroup{&g}
	register(t, h.c, &j)
	h.c.Must(t, &fsm.AllocClientUpdate{
		Allocs: []*alloc.Alloc{{ID: h.alloc, Node: h.node, ClientStatus: alloc.ClientRunning}}})
	h.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{h.node}, Status: node.StatusDown, Seed: ids.New()})
	got := func() *alloc.Alloc { return h.c.Store.Snapshot().Alloc(nil, h.alloc) }
	if a := got(); a.ClientStatus != alloc.ClientUnknown || a.ServerTerminal() || h.claim().State != volume.Held {
		t.Fatalf("the alloc is %s, desired %s, its claim %s", a.ClientStatus, a.DesiredStatus, h.claim().State)
	}
	h.c.Must(t, &fsm.ClaimProof{
		Claim: volume.ClaimKey{Volume: h.vol, Alloc: h.alloc}, Epoch: h.epoch, Proof: volume.ProofAttested, By: "ann"})
	if a := got(); a.ClientStatus != alloc.ClientLost || !a.ServerTerminal() || h.claim() != nil {
		t.Errorf("the alloc is %s, desired %s, its claim %+v", a.ClientStatus, a.DesiredStatus, h.claim())
	}
	looked := false
	for e := range h.c.Store.Snapshot().EvalsByJob(nil, ids.DefaultNamespace, "db") {
		looked = looked || e.TriggeredBy == eval.TriggerNodeUpdate && !e.Terminal() && e.Node == ""
	}
	if !looked {
		t.Error("nobody looks at the job")
	}
}

// TestAProofEndsTheClaimThatWasMeant: given a claim, when a proof names another epoch of it, or proves nothing, then it
// stays; the one that names it ends it, is kept with its reason, and lets the successor begin.
func TestAProofEndsTheClaimThatWasMeant(t *testing.T) {
	h := claimed(t)
	next := anAlloc(h.c, "db", h.node)
	h.c.Must(t, &fsm.PlanApply{
		Place:  []*alloc.Alloc{next},
		Claims: []*volume.Claim{aClaim(h.vol, next, volume.SingleNodeWriter, volume.Queued)},
	})
	h.report(t, h.c.Store.Snapshot().Point(nil), false)
	key := volume.ClaimKey{Volume: h.vol, Alloc: h.alloc}
	earlier, elsewhere := h.epoch, h.epoch
	earlier.Index--
	elsewhere.Incarnation = "another"
	for what, p := range map[string]*fsm.ClaimProof{
		"of an earlier claim":  {Claim: key, Epoch: earlier, Proof: volume.ProofFenced},
		"of another state":     {Claim: key, Epoch: elsewhere, Proof: volume.ProofFenced},
		"that proves nothing":  {Claim: key, Epoch: h.epoch, Proof: volume.ProofNone},
		"of no claim at all":   {Claim: volume.ClaimKey{Volume: h.vol, Alloc: "x"}, Proof: volume.ProofFenced},
		"of nothing in epochs": {Claim: key, Proof: volume.ProofFenced},
	} {
		if done := h.c.Must(t, p); done != false || h.claim() == nil {
			t.Fatalf("a proof %s ended the claim: %v, %+v", what, done, h.claim())
		}
	}
	done := h.c.Must(t, &fsm.ClaimProof{Claim: key, Epoch: h.epoch, Proof: volume.ProofFenced, Reason: "it burnt"})
	s := h.c.Store.Snapshot()
	if done != true || h.claim() != nil {
		t.Fatalf("the claim stays: %v, %+v", done, h.claim())
	}
	pub := volume.PublicationKey{StagingKey: h.key, Alloc: h.alloc}
	if p := s.ClaimProof(h.node, pub, h.epoch); p == nil || p.Reason != "it burnt" || p.Proof != volume.ProofFenced {
		t.Errorf("what ended it is kept as %+v", p)
	}
	if s.ClaimProof(h.node, pub, earlier) != nil || s.ClaimProof(h.node, pub, elsewhere) != nil {
		t.Error("the proof is one of another epoch too")
	}
	if s.InventoryEntry(nil, h.node, h.key) != nil {
		t.Error("what the dead node reported last still counts")
	}
	if cl := s.Claim(nil, volume.ClaimKey{Volume: h.vol, Alloc: next.ID}); cl == nil || cl.State != volume.Held {
		t.Errorf("the successor's claim is %+v", cl)
	}
}

// TestANodeThatSomethingNamesIsNotForgotten: given a dead node, when an attachment, a mount or a claim names it, then
// it stays; then it goes with all that was known of it.
func TestANodeThatSomethingNamesIsNotForgotten(t *testing.T) {
	h := claimed(t)
	h.c.Must(t, &fsm.ClaimProof{Claim: volume.ClaimKey{Volume: h.vol, Alloc: h.alloc},
		Epoch: h.epoch, Proof: volume.ProofFenced, Reason: "it burnt"})
	write := func(fn func(tx *state.Tx)) {
		t.Helper()
		err := h.c.Store.Write(h.c.Store.Snapshot().Stamp(), func(tx *state.Tx) error { fn(tx); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	collect := func(what string, want int) {
		t.Helper()
		got := h.c.Must(t, &collection.Collect{Nodes: []ids.Node{h.node}}).(collection.Collected)
		if got.Nodes != want {
			t.Fatalf("%s: %d nodes were forgotten", what, got.Nodes)
		}
	}
	entry := volume.InventoryEntry{StagingKey: h.key, Volume: h.vol, Staging: volume.Uncertain}
	at := attachmentOf(h, volume.Uncertain)
	cl := &volume.Claim{Volume: h.vol, Alloc: "other", Node: h.node, State: volume.Releasing}
	cl.Identify(h.c.Store.Snapshot().Volume(nil, h.vol))
	collect("it is up", 0)
	h.says(t, true, h.epoch.Index)
	write(func(tx *state.Tx) { tx.PutAttachment(at); tx.PutInventoryEntry(h.node, entry); tx.PutClaim(cl) })
	collect("it is up and named", 0)
	h.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{h.node}, Status: node.StatusDown, Seed: ids.New()})
	collect("with all", 0)
	write(func(tx *state.Tx) { tx.DeleteInventoryEntry(h.node, h.key); tx.DeleteClaim(cl.Key()) })
	collect("a volume is attached to it", 0)
	write(func(tx *state.Tx) { tx.DeleteAttachment(at.Key()); tx.PutInventoryEntry(h.node, entry) })
	collect("it may have something mounted", 0)
	write(func(tx *state.Tx) { tx.DeleteInventoryEntry(h.node, h.key); tx.PutClaim(cl) })
	collect("a claim names it", 0)
	write(func(tx *state.Tx) {
		tx.DeleteClaim(cl.Key())
		tx.PutInventoryEntry(h.node, volume.InventoryEntry{StagingKey: h.key, Volume: h.vol})
		tx.PutClaimProof(&volume.ClaimProof{Node: h.node, Epoch: h.epoch})
	})
	collect("nothing names it", 1)
	s := h.c.Store.Snapshot()
	if s.InventoryHead(nil, h.node) != nil || s.InventoryEntry(nil, h.node, h.key) != nil {
		t.Error("what the forgotten node reported stays")
	}
	for p := range s.ClaimProofsOf(nil, h.node) {
		t.Errorf("a proof stays that was to be told to it: %+v", p)
	}
}

// TestTheUseOfAVolumeIsItsClaims: given a volume in use, when something else of it is written, then its use stays; it
// ends with its last claim and attachment, not before.
func TestTheUseOfAVolumeIsItsClaims(t *testing.T) {
	h := claimed(t)
	err := h.c.Store.Write(h.c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		v := *tx.Volume(nil, h.vol)
		v.Status.MountOptions = &volume.MountOptions{FSType: "xfs"}
		tx.PutVolume(&v)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	used := func(what string, want bool) *volume.Volume {
		t.Helper()
		v := h.c.Store.Snapshot().Volume(nil, h.vol)
		if got := v.Status.AccessMode == volume.SingleNodeWriter && v.Status.AttachmentMode == volume.FileSystem &&
			v.Status.MountOptions.Equal(&volume.MountOptions{FSType: "xfs"}); got != want {
			t.Fatalf("%s: it is used as %q, %q, %+v", what, v.Status.AccessMode, v.Status.AttachmentMode,
				v.Status.MountOptions)
		}
		return v
	}
	v := *used("claimed", true)
	v.Status.AccessMode, v.Status.AttachmentMode = "", ""
	v.Status.MountOptions = nil
	v.Status.Capacity = 1
	h.c.Must(t, &fsm.VolumePut{Volume: &v, Seen: v.ModifyIndex})
	used("written by who did not know of its use", true)
	at := attachmentOf(h, volume.Present)
	h.c.Must(t, &fsm.AttachmentPut{Attachment: at})
	index := h.c.Store.Snapshot().Attachment(nil, at.Key()).ModifyIndex
	h.c.Must(t, &fsm.AttachmentForget{Key: fsm.RefTo(at), Seen: index})
	used("detached and claimed", true)
	h.c.Must(t, &fsm.AttachmentPut{Attachment: attachmentOf(h, volume.Present)})
	h.c.Must(t, &fsm.ClaimProof{Claim: volume.ClaimKey{Volume: h.vol, Alloc: h.alloc},
		Epoch: h.epoch, Proof: volume.ProofFenced})
	used("attached, claimed by nobody", true)
	index = h.c.Store.Snapshot().Attachment(nil, at.Key()).ModifyIndex
	h.c.Must(t, &fsm.AttachmentForget{Key: fsm.RefTo(at), Seen: index})
	if got := used("used by nobody", false).Status.AccessMode; got != "" {
		t.Errorf("nobody uses it as %q", got)
	}
}

// TestACallIsKnownByItsNumber: a new direction of an attachment is a new call, a repetition is the same.
func TestACallIsKnownByItsNumber(t *testing.T) {
	c := localstate.New(t)
	var seen uint64
	put := func(detaching bool) uint64 {
		t.Helper()
		a := c.Must(t, &fsm.AttachmentPut{Seen: seen, Attachment: &volume.Attachment{
			Volume: aVolume("x"), Node: "n", Presence: volume.Uncertain, Detaching: detaching}}).(*volume.Attachment)
		seen = a.ModifyIndex
		return a.Generation
	}
	attach, again := put(false), put(false)
	detach, undone := put(true), put(true)
	if attach == 0 || again != attach || detach <= attach || undone != detach || put(false) <= detach {
		t.Errorf("attach %d, again %d, detach %d, again %d", attach, again, detach, undone)
	}
}
