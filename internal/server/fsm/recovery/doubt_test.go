package recovery_test

import (
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	model "berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/state"
)

// Given a state that knows a node only by what it reported, or by what it showed against the state, when a recovery
// begins, then the node is awaited like the others.
func TestANodeThatOnlyItsWordsNameIsAwaited(t *testing.T) {
	r := newRig(t)
	reported, showed := ids.Node(ids.New()), ids.Node(ids.New())
	r.write(func(tx *state.Tx) {
		tx.PutInventoryHead(&state.InventoryHead{Node: reported})
		tx.PutEvidence(&model.Evidence{Node: showed, Name: "elm", Relation: lineage.Forked})
	})
	rec := r.begin(&recovery.Replaced{Whole: true})
	for what, id := range map[string]ids.Node{"a report": reported, "evidence": showed} {
		if rec.Node(id) == nil {
			t.Errorf("a node of which there is %s is not awaited: %+v", what, rec.Nodes)
		}
	}
}

// Given volumes and snapshots in every phase, when a recovery begins, then those about which a call would go on by
// itself are suspended, and no others; and what was attached may not be.
func TestNothingGoesOnByItselfInARecovery(t *testing.T) {
	r := newRig(t)
	suspends := map[volume.Phase]bool{
		volume.PhaseCreating:  true,
		volume.PhaseDeleting:  true,
		volume.PhaseExpanding: true,
		volume.PhaseReady:     false,
		volume.PhaseFailed:    false,
	}
	named := func(phase volume.Phase) volume.ID {
		return volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(phase)}
	}
	attached := &volume.Attachment{
		Volume:     r.vol,
		Node:       r.ash,
		Plugin:     disk.Plugin,
		ExternalID: disk.ExternalID,
		Presence:   volume.Present,
	}
	r.write(func(tx *state.Tx) {
		for phase := range suspends {
			tx.PutVolume(r.volume(named(phase), phase, "of "+string(phase)))
			tx.PutVolumeSnapshot(&volume.Snapshot{ID: string(phase), Plugin: disk.Plugin, Phase: phase})
		}
		tx.PutAttachment(attached)
	})
	r.begin(nil)
	for phase, want := range suspends {
		if v := r.snap().Volume(nil, named(phase)); v.Status.Suspended != want {
			t.Errorf("a volume that is %s is suspended: %v", phase, v.Status.Suspended)
		}
		want = want && phase != volume.PhaseExpanding
		if r.snap().VolumeSnapshot(nil, string(phase)).Suspended != want {
			t.Errorf("a snapshot that is %s is not, or is, suspended", phase)
		}
	}
	if a := r.snap().Attachment(nil, attached.Key()); a.Presence != volume.Uncertain {
		t.Errorf("what was attached is %s", a.Presence)
	}
}

// Given a recovery and a node that has reported in it, when a person says that the node is dead, then that is refused:
// it was heard.
func TestNobodyIsDeadWhoWasHeard(t *testing.T) {
	r := newRig(t)
	r.begin(&recovery.Replaced{Whole: true})
	r.reports(r.ash, "")
	if err := r.try(&recovery.Dismiss{Node: r.ash, Reason: "it burnt", By: "ann"}); !fault.Has(err, fault.NotFound) {
		t.Errorf("one that was heard is dismissed: %v", err)
	}
	if n := r.snap().Recovery(nil).Node(r.ash); n.Dead != nil {
		t.Errorf("it is dead by %+v", n.Dead)
	}
}

// Given a recovery that is not over, then no expansion begins, none that was suspended goes on, and nothing is
// forgotten by force: the state may be older than the world.
func TestNothingIsBegunOrForgottenInARecovery(t *testing.T) {
	r := newRig(t)
	waits := volume.ID{Namespace: ids.DefaultNamespace, ID: "waits"}
	r.write(func(tx *state.Tx) { tx.PutVolume(r.volume(waits, volume.PhaseExpanding, "vol-2")) })
	r.begin(nil)
	put := func(id volume.ID) error {
		v := *r.snap().Volume(nil, id)
		v.Status.Phase, v.Status.Suspended = volume.PhaseExpanding, false
		return r.try(&fsm.VolumePut{Volume: &v, Seen: v.ModifyIndex})
	}
	for what, err := range map[string]error{
		"an expansion begins":     put(r.vol),
		"a suspended one goes on": put(waits),
		"it is forgotten by force": r.try(&fsm.VolumeForget{
			ID:     r.vol,
			Seen:   r.snap().Volume(nil, r.vol).ModifyIndex,
			Force:  true,
			Reason: "the rack burnt",
		}),
	} {
		if !fault.Has(err, fault.NotReady) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Given a saved state that is newer in index and time than the one that it replaces, then what it becomes is newer than
// both: who waits for news hears of it, and time does not run back.
func TestARestoredStateIsNewerThanBoth(t *testing.T) {
	r := newRig(t)
	saved := state.New()
	later := r.snap().Stamp()
	later.Index, later.Time = later.Index+1000, later.Time.Add(time.Hour)
	err := saved.Write(later, func(tx *state.Tx) error {
		tx.PutMeta(&state.Meta{ClusterID: "c", Incarnation: "i", Mark: "m", Schema: r.snap().Meta(nil).Schema})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	begin := &recovery.Begin{Incarnation: ids.New(), Mark: ids.New(), Cause: "a test"}
	if _, err := recovery.Restored(saved, r.snap(), 1, begin); err != nil {
		t.Fatal(err)
	}
	if got := saved.Snapshot().Stamp(); got.Index <= later.Index || got.Time.Before(later.Time) {
		t.Errorf("it is of index %d and %s, the saved one of %d and %s", got.Index, got.Time, later.Index, later.Time)
	}
}
