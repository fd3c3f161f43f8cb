package storage

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// cuts lets the plugin of the rig's volume make snapshots.
func (r *rig) cuts(t *testing.T) {
	t.Helper()
	err := r.c.Store.Write(r.c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutPlugin(&plugin.Record{ID: "p", Controller: plugin.Capabilities{CreateSnapshot: true}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) snapshots() []*volume.Snapshot {
	return slices.Collect(r.c.Store.Snapshot().VolumeSnapshots(nil))
}

// puts changes the rig's one snapshot.
func (r *rig) puts(t *testing.T, change func(*volume.Snapshot)) {
	t.Helper()
	all := r.snapshots()
	if len(all) != 1 {
		t.Fatalf("there are %d snapshots", len(all))
	}
	n := *all[0]
	change(&n)
	err := r.c.Store.Write(r.c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutVolumeSnapshot(&n)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Given a snapshot that was being cut when the state was saved, which a recovery suspended, when the same is asked for
// again, then it goes on.
func TestASuspendedSnapshotIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cuts(t)
		ask := func() {
			t.Helper()
			if _, err := r.snapshotCreate(t.Context(),
				&wire.SnapshotCreateRequest{Volume: r.vol, Name: "nightly", Wait: time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		r.puts(t, func(sn *volume.Snapshot) { sn.Suspended, sn.Presence = true, volume.Uncertain })
		ask()
		if all := r.snapshots(); len(all) != 1 || all[0].Suspended {
			t.Errorf("asked for again: %d snapshots, the first %+v", len(all), all[0])
		}
	})
}

// TestASnapshotOfANameIsMadeOnce: given requests for a snapshot of a name whose answers were lost, also two at once,
// when they are repeated, then one snapshot was asked for; when it is there, the repeated request gets it with
// a warning. Other parameters are refused, another name is another snapshot, and so is every request without a name.
func TestASnapshotOfANameIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cuts(t)
		ask := func(name string, parameters map[string]string) (*wire.SnapshotReply, error) {
			return r.snapshotCreate(t.Context(),
				&wire.SnapshotCreateRequest{Volume: r.vol, Name: name, Parameters: parameters, Wait: time.Second})
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if r, err := ask("nightly", nil); err != nil || r.Outcome != wire.Accepted || r.Waits == "" {
					t.Errorf("a snapshot that nobody makes: %+v, %v", r, err)
				}
			})
		}
		both.Wait()
		if all := r.snapshots(); len(all) != 1 || !strings.HasPrefix(all[0].Name, "nightly-") {
			t.Fatalf("asked for %d snapshots", len(all))
		}
		if _, err := ask("nightly", map[string]string{"k": "v"}); !fault.Has(err, fault.Conflict) {
			t.Errorf("other parameters: %v", err)
		}
		r.puts(t, func(sn *volume.Snapshot) { sn.Phase, sn.ExternalID = volume.PhaseReady, "snap" })
		again, err := ask("nightly", nil)
		if err != nil || again.Snapshot.ExternalID != "snap" || again.Outcome != "unchanged" ||
			len(again.Warnings) != 1 {
			t.Errorf("the same again: %+v, %v", again, err)
		}
		r.puts(t, func(sn *volume.Snapshot) { sn.Phase = volume.PhaseDeleting })
		if _, err := ask("nightly", nil); !fault.Has(err, fault.Busy) {
			t.Errorf("while it is being deleted: %v", err)
		}
		for range 2 {
			_, _ = ask("weekly", nil)
			_, _ = ask("", nil)
		}
		if all := r.snapshots(); len(all) != 4 {
			t.Errorf("there are %d snapshots of two names, and two without", len(all))
		}
	})
}
