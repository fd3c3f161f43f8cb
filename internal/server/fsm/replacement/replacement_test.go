package replacement_test

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
	"berth/internal/server/fsm/replacement"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// Given a node that is down with an alloc, a claim, a mount and a volume of its own, when a person attests that it is
// dead, then all of it is given up in one step, and the volume can be forgotten by force in whatever it was.
func TestAReplacedNodeHoldsNothing(t *testing.T) {
	c := localstate.New(t)
	old, by := ids.Node(ids.New()), ids.Node(ids.New())
	idle := ids.Node(ids.New())
	for _, id := range []ids.Node{old, by, idle} {
		c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: id, SecretHash: "h"}, Seed: "r"})
	}
	c.Must(t, &fsm.JobRegister{Seed: "j", Job: &job.Job{
		Namespace:  ids.DefaultNamespace,
		ID:         "db",
		Type:       job.TypeService,
		TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}}}},
	}})
	j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "db")
	v := volume.ID{Namespace: ids.DefaultNamespace, ID: "vol"}
	k := volume.StagingKey{Plugin: "p", ExternalID: "x"}
	write := func(fn func(tx *state.Tx)) {
		t.Helper()
		err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			fn(tx)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	write(func(tx *state.Tx) {
		tx.PutVolume(&volume.Volume{
			ID:     v,
			UID:    "u",
			Spec:   volume.Spec{Plugin: "p"},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x", HomeNode: old},
		})
	})
	a := &alloc.Alloc{
		ID:             ids.Alloc(ids.New()),
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobCreateIndex: j.CreateIndex,
		TaskGroup:      "g",
		Name:           "db.g[0]",
		Node:           old,
	}
	c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}, Claims: []*volume.Claim{{
		Volume:         v,
		Alloc:          a.ID,
		Node:           old,
		Job:            "db",
		AccessMode:     volume.SingleNodeWriter,
		AttachmentMode: volume.FileSystem,
		State:          volume.Held,
	}}})
	epoch := c.Store.Snapshot().Claim(nil, volume.ClaimKey{Volume: v, Alloc: a.ID}).Epoch
	unclaimed := volume.StagingKey{Plugin: "p", ExternalID: "y"}
	c.Must(t, &fsm.InventoryApply{Node: old, Full: true, Entries: []volume.InventoryEntry{{
		StagingKey: k,
		Volume:     v,
		Staging:    volume.Present,
		Publications: []volume.InventoryPublication{
			{Alloc: a.ID, Epoch: epoch, Presence: volume.Present, Wanted: true},
		},
	}, {StagingKey: unclaimed, Staging: volume.Present}}})
	replace := func(old, by ids.Node, reason string) (*replacement.Replaced, error) {
		out, _, err := c.Propose(t.Context(),
			&replacement.NodeReplace{Old: old, New: by, Reason: reason, By: "user 0"})
		r, _ := out.(*replacement.Replaced)
		return r, err
	}
	_, err := replace(old, by, "burnt")
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "not down") {
		t.Fatalf("a node that is ready: %v", err)
	}
	c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{old}, Status: node.StatusDown, Seed: "d"})
	for _, wrong := range []struct {
		old, by ids.Node
		reason  string
		kind    fault.Kind
	}{
		{old, by, " ", fault.Invalid},
		{old, old, "burnt", fault.Invalid},
		{"nobody", by, "burnt", fault.NotFound},
		{old, "nobody", "burnt", fault.NotFound},
		{by, old, "burnt", fault.Conflict},
		{idle, by, "burnt", fault.Conflict}, // it has nothing, and answers
	} {
		if _, err := replace(wrong.old, wrong.by, wrong.reason); !fault.Has(err, wrong.kind) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	forget := func() error {
		now := c.Store.Snapshot().Volume(nil, v)
		_, _, err := c.Propose(t.Context(),
			&fsm.VolumeForget{ID: v, Seen: now.ModifyIndex, Force: true, Reason: "burnt"})
		return err
	}
	write(func(tx *state.Tx) {
		n := *tx.Volume(nil, v)
		n.Status.Phase = volume.PhaseExpanding
		tx.PutVolume(&n)
	})
	if err := forget(); err == nil {
		t.Fatal("a volume that is being expanded is forgotten though its node may come back")
	}
	out, err := replace(old, by, "burnt")
	if err != nil {
		t.Fatal(err)
	}
	s := c.Store.Snapshot()
	if len(out.Claims) != 1 || len(out.Lost) != 1 || s.Claim(nil, volume.ClaimKey{Volume: v, Alloc: a.ID}) != nil ||
		s.InventoryEntry(nil, old, k) != nil || s.InventoryEntry(nil, old, unclaimed) != nil ||
		s.Alloc(nil, a.ID).ClientStatus != alloc.ClientLost {
		t.Errorf("left: %+v, alloc %+v", out, s.Alloc(nil, a.ID))
	}
	found := false
	for p := range s.ProvenEnds(nil, "u") {
		found = found || p.Proof == volume.ProofAttested && p.By == "user 0" && p.Reason == "burnt"
	}
	if n := s.Node(nil, old); !found || n.ReplacedBy != by || n.Ready() {
		t.Errorf("the word is not kept: proof %v, node %+v", found, n)
	}
	if err := forget(); err != nil {
		t.Errorf("what lived on it cannot be forgotten: %v", err)
	}
}
