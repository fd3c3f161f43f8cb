package views

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// Given snapshots that a restore suspended, when they are shown, then the commands that ask for them again are named:
// of one that was being cut both that make it and that delete it, unless it had no name of its own.
func TestASuspendedSnapshotIsAskedForAgainByEitherVerb(t *testing.T) {
	c := localstate.New(t)
	id := volume.SnapshotID("u", "nightly")
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		v := &volume.Volume{ID: data, UID: "u"}
		v.Spec.Plugin, v.Status.ExternalID = "p", "vol-1"
		tx.PutVolume(v)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const other = "00000000-0000-8000-8000-000000000001"
	deletes := "berth volume snapshot delete p "
	for _, tc := range []struct {
		id, name string
		phase    volume.Phase
		want     string
	}{
		{id, "nightly", volume.PhaseCreating,
			"berth volume snapshot create data nightly, or " + deletes + id},
		{id, "nightly", volume.PhaseDeleting, deletes + id},
		{other, "data", volume.PhaseCreating, deletes + other},
	} {
		sn := &volume.Snapshot{
			ID:               tc.id,
			Name:             volume.SnapshotName(tc.name, tc.id),
			Plugin:           "p",
			SourceExternalID: "vol-1",
			Phase:            tc.phase,
			Suspended:        true,
		}
		if got := suspendedSnapshot(c.Store.Snapshot(), nil, sn).Resume; got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.phase, tc.name, got, tc.want)
		}
	}
}

// Given a node that the restored state shows as it was, ready, when it has not come back yet, then it is not said to
// answer; once it has registered it is.
func TestANodeThatHasNotComeBackIsNotSaidToAnswer(t *testing.T) {
	c := localstate.New(t)
	awaited := recovery.Node{ID: ids.Node(ids.New())}
	write := func(fn func(tx *state.Tx)) {
		t.Helper()
		if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			fn(tx)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	write(func(tx *state.Tx) {
		tx.PutMeta(&state.Meta{ClusterID: "c", Incarnation: "after"})
		tx.PutNode(&node.Node{ID: awaited.ID, Status: node.StatusReady})
	})
	if got := recovering(c.Store.Snapshot(), nil, &awaited); got.Detail != "it does not answer" ||
		!strings.Contains(got.Exit, "dismiss") {
		t.Errorf("before it came back: %q, %q", got.Detail, got.Exit)
	}
	write(func(tx *state.Tx) { tx.PutSession(&node.Session{Node: awaited.ID, Epoch: "e"}) })
	if got := recovering(c.Store.Snapshot(), nil, &awaited); !strings.HasPrefix(got.Detail, "it answers") {
		t.Errorf("after it came back: %q", got.Detail)
	}
}
