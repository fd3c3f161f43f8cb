package claims

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/reconcile"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/testkit/pluginjobs"
)

// TestNothingIsDetachedWhileANodeShowsAnotherHistory: a claim that the state does not have may be one that it has lost.
func TestNothingIsDetachedWhileANodeShowsAnotherHistory(t *testing.T) {
	c := attached(t, 1)
	c.Must(t, &fsm.LineageMark{Mark: "one"})
	if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.DeleteClaim(claimOf(0).Key())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	key := volume.StagingKey{Plugin: "p", ExternalID: "x0"}
	k := New(Config{
		Store:    c.Store,
		Proposer: c,
		Dispatch: controllers.New(),
		Log:      slog.New(slog.DiscardHandler),
	})
	rests := func() (on reconcile.Result) {
		t.Helper()
		todo, again, _ := k.due(c.Store.Snapshot(), key)
		if todo != nil || again == reconcile.Done() {
			t.Fatalf("it is to be detached: due is %+v, again %+v", todo, again)
		}
		return again
	}
	before := rests() // for want of a node that makes the call
	seen := c.Store.Snapshot().Point(nil)
	seen.Mark = "of another history"
	c.Must(t, &recovery.Evidence{Node: "n", Seen: seen, Relation: lineage.Forked})
	held := suspension.Destruction(c.Store.Snapshot(), nil, key)
	if want := reconcile.Again(time.Minute, held.String()); held == nil || rests() != want {
		t.Errorf("it rests on %+v, want %+v", rests(), want)
	}
	c.Must(t, &recovery.Dismiss{Node: "n", Reason: "its disk is another's"})
	if now := rests(); now != before {
		t.Errorf("dismissed, and it rests on %+v, before on %+v", now, before)
	}
}

// TestAVolumeIsAttachedBesideADetachThatWaits: given a volume of many writers that may not be detached from a node,
// when another one is to have it, then that is what is due.
func TestAVolumeIsAttachedBesideADetachThatWaits(t *testing.T) {
	c := attached(t, 1)
	c.Must(t, &fsm.LineageMark{Mark: "one"})
	if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.DeleteClaim(claimOf(0).Key())
		v := *tx.Volume(nil, claimOf(0).Volume)
		v.Status.AccessMode = volume.MultiNodeMultiWriter
		tx.PutVolume(&v)
		pluginjobs.Put(tx, &node.Node{ID: "z", Status: node.StatusReady, CSI: []*plugin.Instance{
			{Plugin: "p", Role: plugin.RoleNode, Alloc: "i", Node: "z", StorageNode: "host-z"},
		}})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	seen := c.Store.Snapshot().Point(nil)
	seen.Mark = "of another history"
	c.Must(t, &recovery.Evidence{Node: "n", Seen: seen, Relation: lineage.Forked})
	key := volume.StagingKey{Plugin: "p", ExternalID: "x0"}
	k := New(Config{
		Store:    c.Store,
		Proposer: c,
		Dispatch: controllers.New(),
		Log:      slog.New(slog.DiscardHandler),
	})
	held := suspension.Destruction(c.Store.Snapshot(), nil, key)
	_, again, _ := k.due(c.Store.Snapshot(), key)
	if held == nil || again != reconcile.Again(time.Minute, held.String()) {
		t.Fatalf("the detach rests on %+v", again)
	}
	if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		cl := claimOf(0)
		cl.Alloc, cl.Node = "b", "z"
		tx.PutClaim(cl)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, why := controllers.New().SameExecutor(c.Store.Snapshot(), "p", "", "", time.Minute) // no node makes calls
	if _, again, _ := k.due(c.Store.Snapshot(), key); again != reconcile.Again(time.Minute, why) {
		t.Errorf("with a claim elsewhere it rests on %+v, want %q", again, why)
	}
}

// TestTheEndOfASuspensionIsLookedAtAtOnce: given a volume that waits because a node shows another history, when a
// person has dismissed that, then it is looked at without a pause, and those that wait for nothing are not.
func TestTheEndOfASuspensionIsLookedAtAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := attached(t, 20)
		c.Must(t, &fsm.LineageMark{Mark: "one"})
		if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			tx.DeleteClaim(claimOf(0).Key())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		seen := c.Store.Snapshot().Point(nil)
		seen.Mark = "of another history"
		c.Must(t, &recovery.Evidence{Node: "n", Seen: seen, Relation: lineage.Forked})
		passes, end := counted(t, c)
		defer end()
		synctest.Wait()
		before := passes.Load()
		c.Must(t, &recovery.Dismiss{Node: "n", Reason: "its disk is another's"})
		synctest.Wait()
		if got := passes.Load() - before; got != 1 {
			t.Errorf("%d volumes are looked at, want the one that waits", got)
		}
	})
}
