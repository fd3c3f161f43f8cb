package gc

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/server/fsm/departure"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// Given nodes that were forgotten, then what is kept of each ends after 90 days; and of the longest gone, where more
// are gone than are kept.
func TestWhatIsKeptOfForgottenNodesIsBounded(t *testing.T) {
	c := localstate.New(t)
	gc := New(c.Store, c, Hold(Ages{}), slog.New(slog.DiscardHandler))
	now := time.Now()
	gone := func(id string, ago time.Duration) {
		err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			var none *node.Session
			tx.PutSession(none.Depart(ids.Node(id), node.Departure{Time: now.Add(-ago)}))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range departure.Most {
		gone(fmt.Sprintf("n%05d", i), time.Duration(i)*time.Second)
	}
	gone("old", departure.KeptFor)
	gone("new", 0)
	if err := gc.expireDepartures(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	s, left := c.Store.Snapshot(), 0
	for range s.AllSessions() {
		left++
	}
	oldest := ids.Node(fmt.Sprintf("n%05d", departure.Most-1))
	if left != departure.Most || s.Departure("old") != nil || s.Departure("new") == nil || s.Departure(oldest) != nil {
		t.Errorf("%d are kept", left)
	}
}
