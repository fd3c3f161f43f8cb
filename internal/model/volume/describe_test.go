package volume

import (
	"fmt"
	"slices"
	"testing"

	"berth/internal/base/ids"
)

func TestAVolumeIsDescribedInOneOrder(t *testing.T) {
	s := Story{Volume: &Volume{}, OnNodes: map[ids.Node]InventoryEntry{}, Unschedulable: "no plugin is healthy"}
	var want []string
	for i := range 20 {
		node := ids.Node(fmt.Sprintf("%02d", i))
		s.OnNodes[node] = InventoryEntry{LastError: fmt.Sprintf("trouble %d", i)}
		want = append(want, "on node "+ids.Short(node)+": "+fmt.Sprintf("trouble %d", i))
	}
	s.OnNodes["quiet"] = InventoryEntry{}
	want = append(want, "no plugin is healthy")
	for range 10 {
		if got := Describe(s); !slices.Equal(got, want) {
			t.Fatalf("got %q", got)
		}
	}
}
