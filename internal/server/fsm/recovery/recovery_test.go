package recovery_test

import (
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	model "berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

var disk = volume.StagingKey{Plugin: "disk", ExternalID: "vol-1"}

// rig is a state with a leadership, two nodes and a volume.
type rig struct {
	t        *testing.T
	c        *localstate.Cluster
	ash, oak ids.Node
	vol      volume.ID
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, c: localstate.New(t), ash: ids.Node(ids.New()), oak: ids.Node(ids.New())}
	r.vol = volume.ID{Namespace: ids.DefaultNamespace, ID: "db"}
	r.c.Must(t, &fsm.LineageMark{Mark: "one"})
	r.joins(r.ash, "ash")
	r.joins(r.oak, "oak")
	r.c.Must(t, &fsm.VolumePut{Volume: r.volume(r.vol, volume.PhaseReady, disk.ExternalID)})
	return r
}

func (r *rig) volume(id volume.ID, phase volume.Phase, external string) *volume.Volume {
	return &volume.Volume{
		ID:  id,
		UID: ids.New(),
		Spec: volume.Spec{
			Plugin:       disk.Plugin,
			Capabilities: []volume.Capability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}},
		},
		Status: volume.Status{Phase: phase, ExternalID: external, Presence: volume.Present},
	}
}

func (r *rig) joins(id ids.Node, name string) {
	r.t.Helper()
	r.c.Must(r.t, &fsm.NodeRegister{Node: &node.Node{ID: id, Name: name, SecretHash: "h"}, Seed: ids.New()})
}

func (r *rig) snap() *state.Snap { return r.c.Store.Snapshot() }

func (r *rig) begin(replaced *recovery.Replaced) *model.Record {
	r.t.Helper()
	return r.c.Must(r.t, &recovery.Begin{
		Incarnation: ids.New(),
		Mark:        ids.New(),
		Cause:       "a test",
		Replaced:    replaced,
	}).(*model.Record)
}

// reports sends a whole inventory as of an incarnation; empty: the present one.
func (r *rig) reports(id ids.Node, incarnation string, entries ...volume.InventoryEntry) {
	r.t.Helper()
	cmd := &fsm.InventoryApply{Node: id, Full: true, Incarnation: incarnation, Entries: entries}
	if incarnation == "" {
		cmd.Incarnation, cmd.AllocIndex = r.snap().Meta(nil).Incarnation, r.snap().Index()
	}
	if h := r.snap().InventoryHead(nil, id); h != nil {
		cmd.Prev = h.ModifyIndex
	}
	if reply := r.c.Must(r.t, cmd).(*wire.InventoryReply); reply.Stale {
		r.t.Fatal("the report is stale")
	}
}

func (r *rig) try(cmd fsm.Command) error {
	r.t.Helper()
	_, _, err := r.c.Propose(r.t.Context(), cmd)
	return err
}

// write puts into the state what no command of a test makes.
func (r *rig) write(fn func(tx *state.Tx)) {
	r.t.Helper()
	err := r.c.Store.Write(r.snap().Stamp(), func(tx *state.Tx) error {
		fn(tx)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) deletes() error {
	r.t.Helper()
	n := *r.snap().Volume(nil, r.vol)
	n.Status.Phase, n.Status.Suspended = volume.PhaseDeleting, false
	return r.try(&fsm.VolumePut{Volume: &n, Seen: n.ModifyIndex})
}

func (r *rig) waits(want bool, when string) {
	r.t.Helper()
	why := suspension.Destruction(r.snap(), nil, disk)
	if got := why != nil; got != want {
		r.t.Errorf("%s: suspended %v (%s), want %v", when, got, why, want)
	}
	if why != nil && why.Hint == "" {
		r.t.Errorf("%s: the wait names no way out: %s", when, why)
	}
	if r.snap().Recovery(nil).Over(disk) == want && want && len(suspension.Against(r.snap(), nil)) == 0 {
		r.t.Errorf("%s: over, and suspended", when)
	}
}

// Given a state that was put back, when a person begins a recovery, then nothing is deleted before every node of the
// list has reported in the new incarnation, and a person has said that none is missing.
func TestARecoveryEndsWhenEverybodyWasHeard(t *testing.T) {
	r := newRig(t)
	before := r.snap().Meta(nil).Incarnation
	r.reports(r.ash, "")
	r.reports(r.oak, "")
	rec := r.begin(nil)
	if m := r.snap().Meta(nil); m.Incarnation != rec.Incarnation || len(m.Parents) != 1 || m.Parents[0] != before {
		t.Fatalf("the identity is %+v", m)
	}
	if len(rec.Nodes) != 2 {
		t.Fatalf("awaited are %+v", rec.Nodes)
	}
	r.waits(true, "begun")
	if err := r.deletes(); !fault.Has(err, fault.NotReady) {
		t.Errorf("a deletion: %v", err)
	}
	r.reports(r.ash, "")
	r.reports(r.oak, before) // it has not followed yet: what it holds may change with what it hears
	r.waits(true, "one has reported")
	if err := r.try(&recovery.Finish{}); err != nil {
		t.Fatal(err)
	}
	r.waits(true, "a person has said that none is missing, and one has not reported")
	r.reports(r.oak, "")
	r.waits(false, "all have reported")
	if rec := r.snap().Recovery(nil); rec.Ended.IsZero() {
		t.Error("it has not ended")
	}
	if err := r.deletes(); err != nil {
		t.Errorf("a deletion after it: %v", err)
	}
}

// Without the state that was replaced, nobody but a person knows whether a node is missing.
func TestWithoutTheReplacedStateAPersonFinishes(t *testing.T) {
	r := newRig(t)
	r.begin(nil)
	r.reports(r.ash, "")
	r.reports(r.oak, "")
	r.waits(true, "all that are known have reported")
	r.c.Must(t, &recovery.Finish{Reason: "these are all"})
	r.waits(false, "a person has said that none is missing")
}

// A restore by command knows the nodes of the state that it replaces: one that only that one knew is awaited, too, and
// nobody has to finish it.
func TestTheNodesOfTheReplacedStateAreAwaited(t *testing.T) {
	r := newRig(t)
	late := ids.Node(ids.New())
	rec := r.begin(&recovery.Replaced{
		Whole:       true,
		Incarnation: "replaced",
		Parents:     []string{"older"},
		Nodes:       []recovery.Named{{ID: late, Name: "late"}},
	})
	if rec.Parent != "replaced" || len(rec.Nodes) != 3 {
		t.Fatalf("%+v", rec)
	}
	if got := r.snap().Relate(lineage.Point{Incarnation: "older", Mark: "unknown", Index: 3}); got != lineage.Forked {
		t.Errorf("what was seen before the replaced one: %v", got)
	}
	r.reports(r.ash, "")
	r.reports(r.oak, "")
	r.waits(true, "the node that the snapshot does not know has not reported")
	r.joins(late, "late")
	r.reports(late, "")
	r.waits(false, "all have reported")
}

// Given a recovery that has not ended, when another snapshot is restored, then the second recovery takes the place of
// the first, with all the nodes that the first awaited, heard or not, and nobody has to say that none is missing.
func TestASecondRestoreTakesOverTheListOfTheFirst(t *testing.T) {
	r, second := newRig(t), newRig(t)
	late := ids.Node(ids.New())
	named := []recovery.Named{{ID: late, Name: "late"}}
	r.begin(&recovery.Replaced{Whole: true, Incarnation: "replaced", Nodes: named})
	r.reports(r.ash, "")
	r.waits(true, "the first waits for two nodes")
	second.begin(recovery.Replacing(r.snap(), r.snap().Meta(nil).ClusterID))
	rec := second.snap().Recovery(nil)
	if rec.Parent != r.snap().Meta(nil).Incarnation {
		t.Errorf("it goes on from %s", rec.Parent)
	}
	for _, id := range []ids.Node{r.ash, r.oak, late, second.ash, second.oak} {
		if n := rec.Node(id); n == nil || n.Reported != 0 {
			t.Errorf("node %s is not awaited: %+v", id, rec.Nodes)
		}
	}
	for _, id := range []ids.Node{r.ash, r.oak, second.ash, second.oak} {
		second.joins(id, "")
		second.reports(id, "")
	}
	second.waits(true, "a node that the first awaited has not reported")
	second.joins(late, "late")
	second.reports(late, "")
	second.waits(false, "all have reported")
}

// A node that nobody listed and that comes while a recovery goes on is awaited as well.
func TestWhoComesLateIsAwaited(t *testing.T) {
	r := newRig(t)
	r.begin(nil)
	r.reports(r.ash, "")
	r.reports(r.oak, "")
	late := ids.Node(ids.New())
	r.joins(late, "late")
	r.c.Must(t, &recovery.Finish{})
	r.waits(true, "a node has come that has not reported")
	r.reports(late, "")
	r.waits(false, "it has reported")
}

// A dead node is dismissed by a person, for all volumes, or attested for one; one that answers never is.
func TestAPersonVouchesForADeadNode(t *testing.T) {
	r := newRig(t)
	r.begin(nil)
	r.c.Must(t, &recovery.Finish{})
	r.reports(r.ash, "")
	for _, cmd := range []fsm.Command{
		&recovery.Dismiss{Node: r.oak, Reason: "burnt"},
		&recovery.Attest{StagingKey: disk, Node: r.oak, Reason: "burnt"},
	} {
		if err := r.try(cmd); !fault.Has(err, fault.Conflict) {
			t.Errorf("%T of a node that answers: %v", cmd, err)
		}
	}
	r.c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{r.oak}, Status: node.StatusDown, Seed: ids.New()})
	r.waits(true, "a node is down")
	r.c.Must(t, &recovery.Attest{StagingKey: disk, Node: r.oak, Reason: "burnt"})
	r.waits(false, "attested for the volume")
	other := volume.StagingKey{Plugin: "disk", ExternalID: "another"}
	if suspension.Calls(r.snap(), nil, other) == nil {
		t.Error("the word about one volume holds for another")
	}
	r.c.Must(t, &recovery.Dismiss{Node: r.oak, Reason: "burnt", By: "user 0"})
	if suspension.Calls(r.snap(), nil, other) != nil || r.snap().Recovery(nil).Ended.IsZero() {
		t.Error("the node was dismissed, and is awaited still")
	}
	if n := r.snap().Recovery(nil).Node(r.oak); n.Dead == nil || n.Dead.By != "user 0" {
		t.Errorf("who said so is not kept: %+v", n)
	}
}

// Given a claim that came back with a restore, whose alloc is lost, and an orphan that has the volume on the same node,
// then the claim ends by the node's report, which names no use of it any more, though the staging stays for the orphan.
func TestAClaimEndsBesideAnOrphansMount(t *testing.T) {
	r := newRig(t)
	cl := &volume.Claim{
		Volume:     r.vol,
		Alloc:      "back",
		Node:       r.ash,
		AccessMode: volume.SingleNodeWriter,
		State:      volume.Releasing,
		Epoch:      volume.Epoch{Incarnation: r.snap().Meta(nil).Incarnation, Index: 1},
	}
	cl.Identify(r.snap().Volume(nil, r.vol))
	if err := r.c.Store.Write(r.snap().Stamp(), func(tx *state.Tx) error { tx.PutClaim(cl); return nil }); err != nil {
		t.Fatal(err)
	}
	entry := volume.InventoryEntry{StagingKey: disk, Volume: r.vol, Staging: volume.Present,
		Publications: []volume.InventoryPublication{{Alloc: "back", Presence: volume.Uncertain}}}
	for _, c := range []struct {
		orphan, own volume.Presence
		stays       bool
	}{
		{volume.Present, volume.Uncertain, true}, // its own may be mounted
		{volume.Absent, volume.Absent, true},     // the staging may be its own
		{volume.Present, volume.Absent, false},
	} {
		entry.Publications = []volume.InventoryPublication{{Alloc: "back", Presence: c.own},
			{Alloc: "orphan", Presence: c.orphan}}
		r.reports(r.ash, "", entry)
		if got := r.snap().Claim(nil, cl.Key()) != nil; got != c.stays {
			t.Errorf("published for the orphan %s, for its own %s: stays %v", c.orphan, c.own, got)
		}
	}
	if suspension.Claims(r.snap(), nil, r.snap().Volume(nil, r.vol)) == nil {
		t.Error("the orphan's volume is given away")
	}
}

// Given an orphan that has ended and whose volume is still staged on its node, then nobody gets the volume before the
// node has unstaged it: what was written may not be on the device yet.
func TestWhatAnOrphanLeavesStagedIsGivenToNobody(t *testing.T) {
	r := newRig(t)
	entry := volume.InventoryEntry{StagingKey: disk, Volume: r.vol, Staging: volume.Present,
		Publications: []volume.InventoryPublication{{Alloc: "orphan", Presence: volume.Present}}}
	free := func() bool {
		return suspension.Claims(r.snap(), nil, r.snap().Volume(nil, r.vol)) == nil
	}
	for _, c := range []struct {
		publication, staging volume.Presence
		free                 bool
	}{
		{volume.Present, volume.Present, false},
		{volume.Present, volume.Absent, false}, // of a plugin that stages nothing
		{volume.Absent, volume.Present, false},
		{volume.Absent, volume.Uncertain, false},
		{volume.Absent, volume.Absent, true},
	} {
		entry.Staging, entry.Publications[0].Presence = c.staging, c.publication
		if r.reports(r.ash, "", entry); free() != c.free {
			t.Errorf("published %s, staged %s: free %v", c.publication, c.staging, free())
		}
	}
}

// What an orphan has mounted is given to others only where no two uses of the volume exclude each other: one that
// admits a single writer beside readers is no such volume.
func TestAVolumeThatMayHaveASingleWriterIsNotGivenBesideAnOrphan(t *testing.T) {
	for mode, free := range map[volume.AccessMode]bool{
		volume.SingleNodeWriter:      false,
		volume.SingleNodeReader:      false,
		volume.MultiNodeSingleWriter: false,
		volume.MultiNodeReader:       true,
		volume.MultiNodeMultiWriter:  true,
	} {
		r := newRig(t)
		r.write(func(tx *state.Tx) {
			v := *tx.Volume(nil, r.vol)
			v.Spec.Capabilities = []volume.Capability{
				{AccessMode: volume.MultiNodeReader, AttachmentMode: volume.FileSystem},
				{AccessMode: mode, AttachmentMode: volume.FileSystem},
			}
			tx.PutVolume(&v)
		})
		r.reports(r.ash, "", volume.InventoryEntry{StagingKey: disk, Volume: r.vol, Staging: volume.Present,
			Publications: []volume.InventoryPublication{{Alloc: "orphan", Presence: volume.Present}}})
		why := suspension.Claims(r.snap(), nil, r.snap().Volume(nil, r.vol))
		if (why == nil) != free {
			t.Errorf("%s beside an orphan: given %v, %s", mode, why == nil, why)
		}
	}
}

// Given a snapshot that the state does not know, of a volume that it does not know either, then a person has it deleted
// once nothing suspends that; cut is none of such a volume.
func TestASnapshotOfAnUnknownVolumeIsDeleted(t *testing.T) {
	r := newRig(t)
	put := func(phase volume.Phase) error {
		return r.try(&fsm.SnapshotPut{Snapshot: &volume.Snapshot{
			ID:               ids.New(),
			Name:             "cut",
			ExternalID:       "snap-1",
			Plugin:           disk.Plugin,
			SourceExternalID: "of a volume that was made later",
			Phase:            phase,
			Presence:         volume.Present,
		}})
	}
	r.begin(nil)
	r.c.Must(t, &recovery.Finish{})
	r.reports(r.ash, "")
	if err := put(volume.PhaseDeleting); !fault.Has(err, fault.NotReady) {
		t.Errorf("deleted while a node is awaited: %v", err)
	}
	r.reports(r.oak, "")
	if err := put(volume.PhaseDeleting); err != nil {
		t.Errorf("after the recovery: %v", err)
	}
	if err := put(volume.PhaseCreating); !fault.Has(err, fault.Busy) {
		t.Errorf("cut of a volume that nobody knows: %v", err)
	}
}

// What people had asked for before the state was saved waits until they ask again.
func TestIntentsOfTheRestoredStateAreSuspended(t *testing.T) {
	r := newRig(t)
	making := volume.ID{Namespace: ids.DefaultNamespace, ID: "new"}
	unborn := r.volume(making, volume.PhaseCreating, "")
	unborn.Status.Presence = volume.Absent
	r.c.Must(t, &fsm.VolumePut{Volume: unborn})
	r.write(func(tx *state.Tx) {
		tx.PutVolumeSnapshot(&volume.Snapshot{ID: "cut", Plugin: disk.Plugin, Phase: volume.PhaseCreating,
			SourceExternalID: "vol-2"})
	})
	r.reports(r.ash, "")
	r.reports(r.oak, "")
	if err := r.deletes(); err != nil {
		t.Fatal(err)
	}
	r.begin(nil)
	r.c.Must(t, &recovery.Finish{})
	r.reports(r.ash, "")
	r.reports(r.oak, "")
	// Its call may have been made after the state was saved.
	if v := r.snap().Volume(nil, making); v.Status.Presence != volume.Uncertain {
		t.Errorf("what was being made is %s at its provider", v.Status.Presence)
	}
	if sn := r.snap().VolumeSnapshot(nil, "cut"); !sn.Suspended || !sn.MayExist() {
		t.Errorf("a snapshot that was being cut: %+v", sn)
	}
	for _, id := range []volume.ID{r.vol, making} {
		if v := r.snap().Volume(nil, id); !v.Status.Suspended || volume.NextVolume(v) != volume.StepNone {
			t.Errorf("%s goes on: %s", id, v.Status.Phase)
		}
	}
	if err := r.deletes(); err != nil {
		t.Fatal(err)
	}
	if v := r.snap().Volume(nil, r.vol); volume.NextVolume(v) != volume.StepDelete {
		t.Errorf("asked for again, it does not go on: %+v", v.Status)
	}
}

// A node that shows that the state is older than the world suspends what destroys, until a person decides: about the
// state, or about the node.
func TestEvidenceSuspendsWhatDestroys(t *testing.T) {
	show := func(r *rig) {
		r.reports(r.ash, "")
		r.reports(r.oak, "")
		r.waits(false, "nothing is shown")
		now := r.snap().Point(nil)
		r.c.Must(r.t, &recovery.Evidence{
			Node: r.ash,
			Name: "ash",
			Seen: lineage.Point{Incarnation: now.Incarnation, Mark: "of another history", Index: 7},
		})
		r.waits(true, "a node shows another history")
		if suspension.Calls(r.snap(), nil, disk) != nil {
			r.t.Error("a volume that nobody holds is not used either")
		}
	}
	t.Run("the node is wrong", func(t *testing.T) {
		r := newRig(t)
		show(r)
		r.c.Must(t, &recovery.Dismiss{Node: r.ash, Reason: "its disk is another's"})
		r.waits(false, "the node was dismissed")
	})
	t.Run("the state is older", func(t *testing.T) {
		r := newRig(t)
		show(r)
		r.begin(nil)
		r.c.Must(t, &recovery.Finish{})
		r.reports(r.ash, "")
		r.reports(r.oak, "")
		r.waits(false, "the recovery has ended")
	})
	t.Run("it held things of another cluster and has ended them", func(t *testing.T) {
		r := newRig(t)
		r.c.Must(t, &recovery.Evidence{Node: r.ash, Relation: lineage.Foreign,
			Seen: lineage.Point{Incarnation: "another", Mark: "m", Index: 7}})
		r.waits(true, "a node of another state")
		r.c.Must(t, &recovery.Evidence{Node: r.ash, Withdrawn: true})
		r.waits(false, "it holds nothing of it any more")
	})
}

// Given evidence that was on its way when a person began the recovery that takes the node's history over, or any, then
// it stands against nothing: the node would have to end all that it holds to take it back.
func TestEvidenceThatARecoveryHasOvertakenStandsAgainstNothing(t *testing.T) {
	for _, of := range []lineage.Relation{lineage.Foreign, lineage.Forked} {
		t.Run(of.String(), func(t *testing.T) {
			r := newRig(t)
			seen := r.snap().Point(nil)
			seen.Mark = "of another history"
			if of == lineage.Foreign {
				seen.Incarnation = "another"
			}
			late := &recovery.Evidence{Node: r.ash, Relation: of, Seen: seen}
			r.c.Must(t, &recovery.Begin{
				Incarnation: ids.New(),
				Mark:        ids.New(),
				Cause:       "a test",
				Seen:        []string{"another"},
			})
			r.c.Must(t, late)
			r.c.Must(t, &recovery.Finish{})
			r.reports(r.ash, "")
			r.reports(r.oak, "")
			r.waits(false, "what the node has seen is part of the state's past")
		})
	}
}

// A node that follows the servers and holds nothing any more takes back that it held what another cluster state placed;
// that it has seen more of this state's own history than the state has stays true.
func TestWhatANodeHasSeenOfThisHistoryIsNotTakenBack(t *testing.T) {
	r := newRig(t)
	seen := r.snap().Point(nil)
	seen.Mark = "of another history"
	r.c.Must(t, &recovery.Evidence{Node: r.ash, Seen: seen, Relation: lineage.Forked})
	r.c.Must(t, &recovery.Evidence{Node: r.ash, Withdrawn: true})
	r.waits(true, "the node holds nothing, and the state is as old as before")
}

// A person dismisses what was shown, and nothing that is shown later.
func TestADismissalHoldsForWhatWasSeenThen(t *testing.T) {
	r := newRig(t)
	seen := r.snap().Point(nil)
	seen.Mark = "of another history"
	show := func() { r.c.Must(t, &recovery.Evidence{Node: r.ash, Seen: seen, Relation: lineage.Forked}) }
	show()
	r.c.Must(t, &recovery.Dismiss{Node: r.ash, Reason: "its disk is another's"})
	show()
	r.waits(false, "the node says again what was dismissed")
	seen.Mark = "of a third history"
	show()
	r.waits(true, "the node shows another history than the one that was dismissed")
}

// Who waits for news of a table at an index of the replaced state gets them: a restored one counts as changed as a
// whole.
func TestARestoredStateIsNewsToEverybody(t *testing.T) {
	r, saved := newRig(t), newRig(t)
	begin := &recovery.Begin{Incarnation: ids.New(), Mark: ids.New(), Cause: "a test"}
	rec, err := recovery.Restored(saved.c.Store, r.snap(), 1000, begin)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{state.Nodes, state.Volumes, state.Claims, state.Allocs} {
		if at := saved.snap().TableIndex(table); at != rec.Index || at < 1000 {
			t.Errorf("table %s counts from %d on, the recovery from %d", table, at, rec.Index)
		}
	}
}

// What a restored state contains of a history ends with what was saved of it, though the log goes on at higher indexes.
func TestWhatCameAfterTheSavedStateIsNotPartOfIt(t *testing.T) {
	r := newRig(t)
	saved := r.snap().Point(nil)
	later := saved
	later.Index += 100 // of the state that was replaced; the log of the new one begins beyond it
	r.c.Skip(200)
	r.begin(&recovery.Replaced{Incarnation: saved.Incarnation})
	if got := r.snap().Relate(saved); got != lineage.Continues {
		t.Errorf("what was saved: %v", got)
	}
	if got := r.snap().Relate(later); got != lineage.Forked {
		t.Errorf("what came after it: %v", got)
	}
	if got := r.snap().Relate(lineage.Point{Incarnation: "never", Mark: "one", Index: 2}); got != lineage.Foreign {
		t.Errorf("what is no ancestor: %v", got)
	}
}

// A node whose record was collected, and that only a claim or an attachment names, may hold the volume still: it is
// awaited like the others.
func TestANodeThatOnlyAVolumeNamesIsAwaited(t *testing.T) {
	r := newRig(t)
	claims, attached := ids.Node(ids.New()), ids.Node(ids.New())
	cl := &volume.Claim{Volume: r.vol, Alloc: "a", Node: claims, State: volume.Held}
	cl.Identify(r.snap().Volume(nil, r.vol))
	r.write(func(tx *state.Tx) {
		tx.PutClaim(cl)
		tx.PutAttachment(&volume.Attachment{
			Volume:     r.vol,
			Node:       attached,
			Plugin:     disk.Plugin,
			ExternalID: disk.ExternalID,
			Presence:   volume.Present,
		})
	})
	rec := r.begin(&recovery.Replaced{Whole: true})
	for _, id := range []ids.Node{claims, attached, r.ash, r.oak} {
		if rec.Node(id) == nil {
			t.Errorf("node %s is not awaited: %+v", id, rec.Nodes)
		}
	}
	r.reports(r.ash, "")
	r.reports(r.oak, "")
	r.waits(true, "two have not been heard that the state has no record of")
}

// What a node was silent about before a recovery is no word about what it did since the state was saved: no claim ends
// by it.
func TestNoClaimEndsByASilenceFromBeforeARecovery(t *testing.T) {
	r := newRig(t)
	cl := &volume.Claim{
		Volume:     r.vol,
		Alloc:      "a",
		Node:       r.ash,
		AccessMode: volume.SingleNodeWriter,
		State:      volume.Releasing,
		Epoch:      volume.Epoch{Incarnation: r.snap().Meta(nil).Incarnation, Index: 1},
	}
	cl.Identify(r.snap().Volume(nil, r.vol))
	r.reports(r.ash, "")
	if !fsm.Released(r.snap(), nil, cl) {
		t.Fatal("the node holds nothing of it, and that does not count")
	}
	r.begin(nil)
	if fsm.Released(r.snap(), nil, cl) {
		t.Error("the report of before ends a claim")
	}
	r.reports(r.ash, "")
	if !fsm.Released(r.snap(), nil, cl) {
		t.Error("the report since then does not count")
	}
}

// A state that may itself be older than the world does not vouch for the list of nodes when another takes its place: a
// person has to say that none is missing.
func TestAStateInDoubtDoesNotKnowAllNodes(t *testing.T) {
	whole := func(r *rig) bool {
		return recovery.Replacing(r.snap(), r.snap().Meta(nil).ClusterID).Whole
	}
	t.Run("nothing is in doubt", func(t *testing.T) {
		if r := newRig(t); !whole(r) || recovery.Replacing(r.snap(), "another cluster").Whole {
			t.Error("a state of the same cluster knows its nodes, one of another does not")
		}
	})
	t.Run("a node shows another history", func(t *testing.T) {
		r := newRig(t)
		seen := r.snap().Point(nil)
		seen.Mark = "of another history"
		r.c.Must(t, &recovery.Evidence{Node: r.ash, Seen: seen, Relation: lineage.Forked})
		if whole(r) {
			t.Error("it was put back, and is believed to know all nodes")
		}
		r.c.Must(t, &recovery.Dismiss{Node: r.ash, Reason: "its disk is another's"})
		if !whole(r) {
			t.Error("the node is wrong, and its word still counts")
		}
	})
	t.Run("a recovery is under way that knows its list", func(t *testing.T) {
		r := newRig(t)
		r.begin(&recovery.Replaced{Whole: true, Incarnation: "replaced"})
		if !whole(r) {
			t.Error("its list was complete when it began, and whoever came since is in it")
		}
	})
	t.Run("a recovery is under way", func(t *testing.T) {
		r := newRig(t)
		r.begin(nil)
		r.reports(r.ash, "")
		r.reports(r.oak, "")
		if whole(r) {
			t.Error("nobody has said that no node is missing")
		}
		r.c.Must(t, &recovery.Finish{Reason: "these are all"})
		if !whole(r) {
			t.Error("the recovery has ended")
		}
	})
}
