package shortages_test

import (
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm/shortages"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

var (
	id  = volume.ID{Namespace: ids.DefaultNamespace, ID: "db"}
	key = plugin.ShortageKey{Node: "n", Plugin: "p"}
)

// refusal is the command after a refused attach.
func refusal(seen uint64) *shortages.AttachRefused {
	return &shortages.AttachRefused{Seen: seen, Until: time.Now(), Seed: "s", Attachment: &volume.Attachment{
		Volume:     id,
		Node:       "n",
		Plugin:     "p",
		ExternalID: "x",
		LastError:  "no capacity",
	}}
}

// waiting is a state in which an alloc on node n has a claim of the volume.
func waiting(t *testing.T, kind, status string, on ids.Node) *localstate.Cluster {
	t.Helper()
	c := localstate.New(t)
	if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutVolume(&volume.Volume{ID: id, UID: "u", Spec: volume.Spec{Plugin: "p"},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x"}})
		tx.PutJob(&job.Job{Namespace: ids.DefaultNamespace, ID: "j", Type: kind})
		tx.PutAlloc(&alloc.Alloc{
			ID:            "a",
			Namespace:     ids.DefaultNamespace,
			Job:           "j",
			Node:          on,
			DesiredStatus: alloc.DesiredRun,
			ClientStatus:  status,
		})
		tx.PutClaim(&volume.Claim{
			Volume:     id,
			UID:        "u",
			Plugin:     "p",
			ExternalID: "x",
			Alloc:      "a",
			Node:       on,
			State:      volume.Held,
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWhoGoesElsewhere: what waits for the volume on the full node, and could be on another one.
func TestWhoGoesElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		kind, status string
		on           ids.Node
		moves        bool
	}{
		"it waits there":               {job.TypeService, alloc.ClientPending, "n", true},
		"it waits on another node":     {job.TypeService, alloc.ClientPending, "m", false},
		"it runs already":              {job.TypeService, alloc.ClientRunning, "n", false},
		"its job has one on each node": {job.TypeSystem, alloc.ClientPending, "n", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := waiting(t, test.kind, test.status, test.on)
			c.Must(t, refusal(0))
			s := c.Store.Snapshot()
			if a := s.Alloc(nil, "a"); a.ServerTerminal() != test.moves {
				t.Errorf("it is to %s, because %q", a.DesiredStatus, a.DesiredDescription)
			}
			evals := 0
			for range s.EvalsByJob(nil, ids.DefaultNamespace, "j") {
				evals++
			}
			if evals > 0 != test.moves {
				t.Errorf("its job has %d evaluations", evals)
			}
			if s.Shortage(nil, key) == nil {
				t.Error("the node is not known to be full")
			}
		})
	}
}

// TestAPermanentRefusalIsOfOneVolume: what waits for the volume goes elsewhere, and the node has room for others.
func TestAPermanentRefusalIsOfOneVolume(t *testing.T) {
	c := waiting(t, job.TypeService, alloc.ClientPending, "n")
	r := refusal(0)
	r.Basis, r.Use = "basis", "use"
	c.Must(t, r)
	s := c.Store.Snapshot()
	if s.Shortage(nil, key) != nil {
		t.Error("the node counts as full")
	}
	of := plugin.ShortageKey{Node: "n", Plugin: "p", ExternalID: "x"}
	if got := s.Shortage(nil, of); got == nil || got.Basis != "basis" || got.Use != "use" {
		t.Errorf("the refusal is %+v", got)
	}
	if a := s.Alloc(nil, "a"); !a.ServerTerminal() || !strings.Contains(a.DesiredDescription, "permanently refuses") {
		t.Errorf("what waits is to %s, because %q", a.DesiredStatus, a.DesiredDescription)
	}
}

// TestRefusalsInARowAreCounted: the same shortage again is one refusal, another after it was over is one more. Who has
// not seen the attachment, or the shortage, as it is changes nothing.
func TestRefusalsInARowAreCounted(t *testing.T) {
	c := waiting(t, job.TypeService, alloc.ClientPending, "n")
	stored := func() *plugin.Shortage { return c.Store.Snapshot().Shortage(nil, key) }
	seen := uint64(0)
	tries := func(want int) {
		t.Helper()
		seen = c.Must(t, refusal(seen)).(*volume.Attachment).ModifyIndex
		if got := stored(); got.Tries != want || got.Over {
			t.Errorf("it is %+v, want %d tries", got, want)
		}
	}
	tries(1)
	tries(1)
	end := func(at uint64, forget bool) { c.Must(t, &shortages.ShortageEnd{Key: key, Seen: at, Forget: forget}) }
	end(stored().ModifyIndex-1, false)
	if stored().Over {
		t.Error("it ended by the word of who has not seen it")
	}
	end(stored().ModifyIndex, false)
	if !stored().Over {
		t.Error("it has not ended")
	}
	tries(2)
	if _, _, err := c.Propose(t.Context(), refusal(seen-1)); !fault.Has(err, fault.Conflict) {
		t.Errorf("an attachment that was not seen as it is: %v", err)
	}
	end(stored().ModifyIndex, true)
	if stored() != nil {
		t.Error("it is not forgotten")
	}
}
