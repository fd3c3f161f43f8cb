package claims

import (
	"log/slog"
	"testing"
	"time"

	"berth/internal/base/reconcile"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
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
