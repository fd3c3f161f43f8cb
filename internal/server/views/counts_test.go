package views

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Given a node with something in reserve, and allocations of which one has ended, then what is left is what is neither
// reserved nor given to the others; volumes are counted by plugin and phase, of every namespace.
func TestCounts(t *testing.T) {
	h := newHouse(t)
	h.write(func(tx *state.Tx) {
		tx.PutNode(&node.Node{
			ID:        "counted",
			Resources: node.Resources{CPUShares: 1000, MemoryMB: 500, DiskMB: 50},
			Reserved:  node.Resources{CPUShares: 100, MemoryMB: 50, DiskMB: 5},
			Orphans:   []node.Orphan{{Alloc: "o"}},
		})
		for id, status := range map[ids.Alloc]string{
			"r": alloc.ClientRunning,
			"p": alloc.ClientPending,
			"c": alloc.ClientComplete,
		} {
			tx.PutAlloc(&alloc.Alloc{
				ID:           id,
				Node:         "counted",
				ClientStatus: status,
				Resources: alloc.Resources{
					Tasks:  map[string]alloc.TaskResources{"t": {CPUShares: 30, MemoryMB: 20}},
					DiskMB: 10,
				},
			})
		}
		for i, phase := range []volume.Phase{volume.PhaseReady, volume.PhaseReady, volume.PhaseDeleting} {
			tx.PutVolume(&volume.Volume{
				ID:     volume.ID{Namespace: ids.Namespace([]string{"a", "b", "b"}[i]), ID: ids.Volume(phase)},
				Spec:   volume.Spec{Plugin: "counting"},
				Status: volume.Status{Phase: phase, Capacity: 7},
			})
		}
	})
	c := Counts(h.Store.Snapshot())
	found := 0
	for _, n := range c.Nodes {
		if n.ID != "counted" {
			continue
		}
		found++
		if n.Given != (wire.Amount{CPUShares: 60, MemoryMB: 40, DiskMB: 20}) ||
			n.Left != (wire.Amount{CPUShares: 840, MemoryMB: 410, DiskMB: 25}) ||
			n.Allocs[alloc.ClientRunning] != 1 || n.Allocs[alloc.ClientComplete] != 1 || n.Orphans != 1 {
			t.Errorf("the node is counted as %+v", n)
		}
	}
	for _, v := range c.Volumes {
		if v.Plugin != "counting" {
			continue
		}
		found++
		want := 1
		if v.Phase == string(volume.PhaseReady) {
			want = 2
		}
		if v.Count != want || v.Bytes != int64(7*want) {
			t.Errorf("volumes are counted as %+v", v)
		}
	}
	if found != 3 {
		t.Errorf("%d of a node and two kinds of volumes are counted", found)
	}
}
