package wire

import (
	"slices"
	"testing"
	"time"

	"berth/internal/model/lineage"
	"berth/internal/model/volume"
)

// anInventory has every member of an entry.
func anInventory() []volume.InventoryEntry {
	return []volume.InventoryEntry{{
		StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x"},
		Volume:     volume.ID{Namespace: "default", ID: "v"},
		Staging:    volume.Present,
		Generation: 3,
		Publications: []volume.InventoryPublication{{
			Alloc:    "a",
			Epoch:    volume.Epoch{Incarnation: "i", Index: 7},
			Presence: volume.Uncertain,
			Wanted:   true,
			Path:     "/path",
			ReadOnly: true,
			Received: lineage.Point{Incarnation: "i", Mark: "m", Index: 8},
		}},
		LastError:  "busy",
		NextTry:    time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Step:       "publishing",
		ExpandedTo: 9,
		Provider:   "vendor",
		Undone:     &volume.Undone{Proof: volume.ProofAttested, Reason: "r", By: "b"},
		Holders:    []volume.Holder{{PID: 7, Command: "c", Namespace: "n", Alloc: "a", How: "h"}},
	}, {StagingKey: volume.StagingKey{Plugin: "o", ExternalID: "y"}}}
}

// TestTheDigestOfAnInventory is held: peers of different versions agree on it as long as an entry has the same members.
// One that gets a member gets another digest, and its peers reports instead.
func TestTheDigestOfAnInventory(t *testing.T) {
	unknown := []volume.UnknownMount{{Path: "/mnt", Dir: "d", Device: "1:2", FSType: "ext4"}}
	for _, c := range []struct {
		what    string
		entries []volume.InventoryEntry
		unknown []volume.UnknownMount
		want    string
	}{
		{"nothing", nil, nil, "53d23e2f60ec9663ed7803ebc4cf71b82c9d9c5e44537daf0df96d2618e867b7"},
		{"entries", anInventory(), nil, "0449e37e5b87b63c54748dcb66bc36a5088e3d6f4b413a294ab965ca8bacebea"},
		{"what has no name", nil, unknown, "7be96883c376c010668700d6660a8c1806838c0849b9f8f63bacffad260ea973"},
	} {
		got, err := InventoryDigestOf(c.entries, c.unknown)
		if err != nil || got != c.want {
			t.Errorf("of %s it is %s, %v, want %s", c.what, got, err, c.want)
		}
	}
}

// TestEqualInventoriesHaveOneDigest: after a journey over the wire, in another order, and empty in another way.
func TestEqualInventoriesHaveOneDigest(t *testing.T) {
	data, err := Encode(anInventory())
	if err != nil {
		t.Fatal(err)
	}
	var arrived []volume.InventoryEntry
	if err := DecodeStrict(data, &arrived); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(arrived)
	for _, pair := range [][2][]volume.InventoryEntry{{anInventory(), arrived}, {nil, {}}} {
		a, errA := InventoryDigestOf(pair[0], nil)
		b, errB := InventoryDigestOf(pair[1], []volume.UnknownMount{})
		if a != b || errA != nil || errB != nil {
			t.Errorf("%s, %v and %s, %v", a, errA, b, errB)
		}
	}
	if arrived[1].Plugin != "p" {
		t.Error("it put the caller's entries into another order")
	}
}
