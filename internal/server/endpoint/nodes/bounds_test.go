package nodes

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// TestWhatAReportMayHold: a report of many volumes is taken, with a plugin's words cut; one that no node would send is
// refused as a whole, so that a node in other hands does not fill the log of the servers.
func TestWhatAReportMayHold(t *testing.T) {
	long := strings.Repeat("x", longestWord+1)
	key := volume.StagingKey{Plugin: "p", ExternalID: "x"}
	wordy := &wire.InventoryReport{Entries: []volume.InventoryEntry{{StagingKey: key, LastError: long, Step: long}}}
	if err := bounded(wordy); err != nil {
		t.Errorf("a plugin that says much: %v", err)
	}
	if e := wordy.Entries[0]; len(e.LastError) != longestWord || len(e.Step) != longestWord {
		t.Errorf("kept: %d and %d letters", len(e.LastError), len(e.Step))
	}
	many := &wire.InventoryReport{
		Entries: make([]volume.InventoryEntry, mostEntries),
		Unknown: make([]volume.UnknownMount, mostUnknown),
	}
	if err := bounded(many); err != nil {
		t.Errorf("a report that is large: %v", err)
	}
	entry := func(e volume.InventoryEntry) *wire.InventoryReport {
		return &wire.InventoryReport{Entries: []volume.InventoryEntry{e}}
	}
	held := entry(volume.InventoryEntry{Holders: make([]volume.Holder, 10*mostHolders)})
	if err := bounded(held); err != nil || len(held.Entries[0].Holders) != mostHolders {
		t.Errorf("a volume that many keep: %d are shown, %v", len(held.Entries[0].Holders), err)
	}
	for name, r := range map[string]*wire.InventoryReport{
		"entries":    {Entries: make([]volume.InventoryEntry, mostEntries+1)},
		"mounts":     {Unknown: make([]volume.UnknownMount, mostUnknown+1)},
		"a path":     {Unknown: []volume.UnknownMount{{Path: long}}},
		"an id":      entry(volume.InventoryEntry{StagingKey: volume.StagingKey{ExternalID: long}}),
		"a provider": entry(volume.InventoryEntry{StagingKey: key, Provider: long}),
		"a target":   entry(volume.InventoryEntry{Publications: []volume.InventoryPublication{{Path: long}}}),
		"an epoch": entry(volume.InventoryEntry{Publications: []volume.InventoryPublication{{
			Epoch: volume.Epoch{Incarnation: long},
		}}}),
		"a mark": entry(volume.InventoryEntry{Publications: []volume.InventoryPublication{{
			Received: lineage.Point{Mark: long},
		}}}),
		"a holder":     entry(volume.InventoryEntry{Holders: []volume.Holder{{Command: long}}}),
		"who vouches":  entry(volume.InventoryEntry{Undone: &volume.Undone{By: long}}),
		"publications": entry(volume.InventoryEntry{Publications: make([]volume.InventoryPublication, mostEntries+1)}),
	} {
		if err := bounded(r); !fault.Has(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatANodeSaysOfItselfIsBounded: the servers keep it, each of them, and write it down whenever it changes.
func TestWhatANodeSaysOfItselfIsBounded(t *testing.T) {
	n := &node.Node{ID: "n", Orphans: make([]node.Orphan, 4_000)}
	if err := boundedNode(n); err != nil {
		t.Errorf("a node with many orphans: %v", err)
	}
	n.Meta = map[string]string{"x": strings.Repeat("x", mostOfNode)}
	if err := boundedNode(n); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), `node "n"`) {
		t.Errorf("a node that says too much: %v", err)
	}
}
