package volume

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
)

func TestAVolumeIsDescribedInOneOrder(t *testing.T) {
	s := Story{Volume: &Volume{}, OnNodes: map[ids.Node]InventoryEntry{}, Unschedulable: "no plugin is healthy"}
	var want []string
	for i := range 20 {
		node := ids.Node(fmt.Sprintf("%02d", i))
		s.OnNodes[node] = InventoryEntry{LastError: fmt.Sprintf("trouble %d", i), NextTry: time.Unix(int64(i+1), 0)}
		want = append(want,
			"on node "+ids.Short(node)+": "+fmt.Sprintf("trouble %d; next try at 1970-01-01T00:00:%02dZ", i, i+1))
	}
	s.OnNodes["quiet"] = InventoryEntry{}
	want = append(want, "no plugin is healthy")
	for range 10 {
		if got := Describe(s); !slices.Equal(got, want) {
			t.Fatalf("got %q", got)
		}
	}
}

// TestWhyAReleaseHangsComesFirst: given a volume whose expansion was refused earlier, and whose alloc has ended on a
// node that cannot unmount it, then the release and its trouble come before everything else.
func TestWhyAReleaseHangsComesFirst(t *testing.T) {
	s := Story{
		Volume: &Volume{Status: Status{Phase: PhaseReady, NodeExpandPending: true,
			LastError: ExpansionRefused + "no"}},
		Claims: []*Claim{
			{Alloc: "b2345678", Node: "m", Job: "waits", State: Queued},
			{Alloc: "a2345678", Node: "n", Job: "old", State: Held},
		},
		OnNodes: map[ids.Node]InventoryEntry{"n": {Step: "unmounting", LastError: "target is busy"}},
		Ending:  map[ids.Alloc]bool{"a2345678": true},
	}
	got := Describe(s)
	want := []string{"releasing", "waits for it", "target is busy", "last expansion refused", "grown"}
	var order []string
	for _, line := range got {
		for _, word := range want {
			if strings.Contains(line, word) {
				order = append(order, word)
			}
		}
	}
	if !slices.Equal(order, want) || len(got) != len(want) || !strings.HasSuffix(got[0], "; there: unmounting") {
		t.Errorf("got %q", got)
	}
}

// TestAnExpansionTellsWhatWasAskedMeanwhile: a wish that waits for the end of a call is shown.
func TestAnExpansionTellsWhatWasAskedMeanwhile(t *testing.T) {
	for wish, want := range map[int64]string{
		4000: "being expanded to at least 3.9 KiB",
		3000: "being expanded to at least 3.9 KiB, then to 2.9 KiB",
		1000: "being expanded to at least 3.9 KiB, cancelled as soon as it is known how the last call ended",
	} {
		v := &Volume{Spec: Spec{CapacityMin: wish}, Status: Status{
			Phase:     PhaseExpanding,
			Capacity:  1000,
			WantedMin: 4000,
		}}
		if got := Describe(Story{Volume: v}); len(got) != 1 || got[0] != want {
			t.Errorf("%d: got %q", wish, got)
		}
	}
}
