package permissions

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/server/state"
)

// Given tasks of drivers that are built in, and of others, when somebody wants a session in one, then it counts as one
// on the node unless it is known that the task has a root of its own.
func TestASessionIsConfinedWhereItIsKnownToBe(t *testing.T) {
	s := state.New()
	want := map[string]bool{"exec": true, "raw_exec": false, "podman": true, "hello": false, "unknown": false}
	err := s.Write(state.Stamp{Index: 1, Time: now}, func(tx *state.Tx) error {
		own := map[string]string{node.DriverConfined("podman"): "1"}
		tx.PutNode(&node.Node{ID: "n", Drivers: map[string]*node.Driver{
			"podman": {Detected: true, Attributes: own},
			"hello":  {Detected: true, Attributes: own}, // what another driver says counts for that one
		}})
		for name := range want {
			id := ids.Job(name)
			tx.PutJob(jobIn("app", id, name))
			tx.PutAlloc(&alloc.Alloc{
				ID:             ids.Alloc(name),
				Namespace:      "app",
				Job:            id,
				TaskGroup:      "g",
				Node:           "n",
				JobCreateIndex: tx.Job(nil, "app", id).CreateIndex,
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	snap := s.Snapshot()
	for name, is := range want {
		if a := snap.Alloc(nil, ids.Alloc(name)); confined(snap, a, "t") != is {
			t.Errorf("a session in a task of %s is confined: %t", name, !is)
		}
	}
	if a := snap.Alloc(nil, "exec"); confined(snap, a, "other") {
		t.Error("a session in a task that there is not is confined")
	}
}
