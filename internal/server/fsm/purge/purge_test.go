package purge_test

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/purge"
	"berth/internal/server/fsm/sessions"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// TestANodeIsPurgedWhenItHoldsNothing: given a node with an alloc, then it is forgotten when it is down and nothing of
// a volume is left there, and not before; its alloc is lost and looked at, and the chain of its agent starts stays.
func TestANodeIsPurgedWhenItHoldsNothing(t *testing.T) {
	c := localstate.New(t)
	const id ids.Node = "n"
	c.Must(t, &fsm.LineageMark{Mark: "one"})
	start := func(epoch string, previous ...string) error {
		_, _, err := c.Propose(t.Context(), &sessions.Register{
			Node:   fsm.NodeRegister{Node: &node.Node{ID: id, Name: "n", SecretHash: "h"}, Seed: ids.New()},
			Silent: true,
			Start:  wire.AgentStart{Registration: node.Registration{Next: epoch, Previous: previous}},
		})
		return err
	}
	if err := start("a"); err != nil {
		t.Fatal(err)
	}
	write := func(fn func(tx *state.Tx)) {
		t.Helper()
		c.Must(t, &fsm.LineageMark{Mark: ids.New()})
		at := c.Store.Snapshot().Stamp()
		if err := c.Store.Write(at, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	vol := volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}
	key := volume.StagingKey{Plugin: "p", ExternalID: "x"}
	write(func(tx *state.Tx) {
		j := &job.Job{Namespace: ids.DefaultNamespace, ID: "j", Type: job.TypeService}
		tx.PutJob(j)
		tx.PutAlloc(&alloc.Alloc{
			ID:             "a",
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobCreateIndex: j.CreateIndex,
			Node:           id,
			DesiredStatus:  alloc.DesiredRun,
			ClientStatus:   alloc.ClientRunning,
		})
		tx.PutClaim(&volume.Claim{
			Volume:     vol,
			Plugin:     "p",
			ExternalID: "x",
			Alloc:      "a",
			Node:       id,
		})
		tx.PutAttachment(&volume.Attachment{Volume: vol, Plugin: "p", ExternalID: "x", Node: id})
		tx.PutInventoryEntry(id, volume.InventoryEntry{StagingKey: key, Staging: volume.Present})
	})
	for _, step := range []struct {
		want string
		then func(tx *state.Tx)
	}{
		{"not down", func(tx *state.Tx) {
			n := *tx.Node(nil, id)
			n.Status = node.StatusDown
			tx.PutNode(&n)
		}},
		{"not proven released", func(tx *state.Tx) { tx.DeleteClaim(volume.ClaimKey{Volume: vol, Alloc: "a"}) }},
		{"not proven detached", func(tx *state.Tx) {
			tx.DeleteAttachment(volume.AttachmentKey{StagingKey: key, Node: id})
		}},
		{"not proven released", func(tx *state.Tx) { tx.DeleteInventoryEntry(id, key) }},
	} {
		_, _, err := c.Propose(t.Context(), &purge.NodePurge{Node: id, Seed: "s"})
		if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), step.want) ||
			!strings.Contains(err.Error(), "(") {
			t.Errorf("it is refused with %v, not %q and a way out", err, step.want)
		}
		write(step.then)
	}
	done := c.Must(t, &purge.NodePurge{Node: id, Seed: "s"}).(*fsm.NodeChanged)
	s := c.Store.Snapshot()
	if s.Node(nil, id) != nil {
		t.Error("it is there still")
	}
	if a := s.Alloc(nil, "a"); a.ClientStatus != alloc.ClientLost || len(done.Evals) != 1 ||
		s.Eval(nil, done.Evals[0]) == nil {
		t.Errorf("its alloc is %s, and evaluations are %v", a.ClientStatus, done.Evals)
	}
	if err := start("c", "b"); err == nil {
		t.Errorf("a copy is the node that was purged: %v", err)
	}
	if err := start("b", "a"); err != nil {
		t.Errorf("the node itself does not come back: %v", err)
	}
	if _, _, err := c.Propose(t.Context(), &purge.NodePurge{Node: "none"}); !fault.Has(err, fault.NotFound) {
		t.Errorf("a node that is none: %v", err)
	}
}
