package recovery_test

import (
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	model "berth/internal/model/recovery"
	"berth/internal/model/volume"
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
