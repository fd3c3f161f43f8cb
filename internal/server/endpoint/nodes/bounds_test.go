package nodes

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
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
	for name, r := range map[string]*wire.InventoryReport{
		"entries":      {Entries: make([]volume.InventoryEntry, mostEntries+1)},
		"mounts":       {Unknown: make([]volume.UnknownMount, mostUnknown+1)},
		"a path":       {Unknown: []volume.UnknownMount{{Path: long}}},
		"an id":        entry(volume.InventoryEntry{StagingKey: volume.StagingKey{ExternalID: long}}),
		"a provider":   entry(volume.InventoryEntry{StagingKey: key, Provider: long}),
		"a target":     entry(volume.InventoryEntry{Publications: []volume.InventoryPublication{{Path: long}}}),
		"publications": entry(volume.InventoryEntry{Publications: make([]volume.InventoryPublication, mostEntries+1)}),
	} {
		if err := bounded(r); !fault.Has(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
