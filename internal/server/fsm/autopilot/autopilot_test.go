package autopilot_test

import (
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	model "berth/internal/model/autopilot"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/autopilot"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

func put(t *testing.T, c *localstate.Cluster, cmd *autopilot.Put) bool {
	t.Helper()
	done, _, err := fsm.Propose[bool](t.Context(), c, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestWhatIsSaidHoldsForWhoSawTheLast: given a cluster of which nothing was said, then the default holds, and who says
// that he has seen that may write; whoever has seen another one changes nothing, and what is said again keeps its
// index.
func TestWhatIsSaidHoldsForWhoSawTheLast(t *testing.T) {
	c := localstate.New(t)
	if got := c.Store.Snapshot().Autopilot(nil); !got.Same(model.Default()) || got.ModifyIndex != 0 {
		t.Fatalf("%+v holds", got)
	}
	next := *model.Default()
	next.MinQuorum = 3
	if put(t, c, &autopilot.Put{Config: next, Checked: true, Last: 7}) {
		t.Error("who has seen what was never there wrote")
	}
	if !put(t, c, &autopilot.Put{Config: next, Checked: true}) {
		t.Error("who has seen the default did not write")
	}
	first := c.Store.Snapshot().Autopilot(nil)
	if first.MinQuorum != 3 || first.ModifyIndex == 0 || first.CreateIndex != first.ModifyIndex {
		t.Fatalf("%+v holds", first)
	}
	if put(t, c, &autopilot.Put{Config: *model.Default(), Checked: true}) {
		t.Error("who has seen the default wrote over what was said since")
	}
	if !put(t, c, &autopilot.Put{Config: next}) || c.Store.Snapshot().Autopilot(nil).ModifyIndex != first.ModifyIndex {
		t.Error("what was said again has another index")
	}
	next.Stabilization = time.Minute
	next.CreateIndex, next.ModifyIndex = 70, 70 // not for who writes to say
	if !put(t, c, &autopilot.Put{Config: next, Checked: true, Last: first.ModifyIndex}) {
		t.Error("who has seen the last did not write")
	}
	if got := c.Store.Snapshot().Autopilot(nil); got.Stabilization != time.Minute ||
		got.CreateIndex != first.CreateIndex || got.ModifyIndex <= first.ModifyIndex || got.ModifyIndex >= 70 {
		t.Errorf("%+v holds", got)
	}
	next.MaxTrailing = 0
	if _, _, err := c.Propose(t.Context(), &autopilot.Put{Config: next}); !fault.Has(err, fault.Invalid) {
		t.Errorf("what no cluster can be kept by: %v", err)
	}
}

// TestADeadServerIsTakenOffWhereThatIsStillWanted: what was judged before is judged again where it is applied.
func TestADeadServerIsTakenOffWhereThatIsStillWanted(t *testing.T) {
	c := localstate.New(t)
	err := c.Store.Write(state.Stamp{Index: 3, Time: time.Now()}, func(tx *state.Tx) error {
		for _, name := range []string{"s1", "s2", "s3", "s4"} {
			tx.PutMember(&trust.Member{Role: trust.Server, ID: name, Joined: time.Now()})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Skip(1)
	refused := func(cmd *autopilot.Cleanup, says string) {
		t.Helper()
		if _, _, err := c.Propose(t.Context(), cmd); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	off := *model.Default()
	off.CleanupDead = false
	put(t, c, &autopilot.Put{Config: off})
	refused(&autopilot.Cleanup{Name: "s4", Keep: 3}, "CleanupDeadServers was set to false")
	put(t, c, &autopilot.Put{Config: *model.Default()})
	refused(&autopilot.Cleanup{Name: "s5", Keep: 3}, "there is none of that name")
	c.Must(t, &autopilot.Cleanup{Name: "s4", Keep: 3})
	if m := c.Store.Snapshot().Member(nil, trust.Server, "s4"); !m.Gone() {
		t.Error("it is still in the list")
	}
	refused(&autopilot.Cleanup{Name: "s3", Keep: 3}, "2 servers would be left, and there are to be 3")
	c.Must(t, &autopilot.Cleanup{Name: "s4", Keep: 3}) // the answer was lost
}
