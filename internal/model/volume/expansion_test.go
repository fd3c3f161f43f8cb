package volume

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
)

// Given an expansion that the provider refuses permanently, when it is given up, then the volume asks for what it has,
// within the limit that it was given, and the reason is kept. What was asked for meanwhile is tried.
func TestARefusedExpansionIsAskedForNoMore(t *testing.T) {
	of := func(wish int64) *Volume {
		return &Volume{
			Spec: Spec{CapacityMin: wish, CapacityMax: 5000},
			Status: Status{
				Phase:     PhaseExpanding,
				Capacity:  1000,
				WantedMin: 3000,
				WantedMax: 5000,
			},
		}
	}
	v := of(3000)
	v.RefuseExpansion("no", time.Now())
	if v.Status.Phase != PhaseReady || v.Spec.CapacityMin != 1000 || v.Spec.CapacityMax != 5000 ||
		v.Status.LastError != ExpansionRefused+"no" {
		t.Errorf("after the refusal it is %+v, %+v", v.Spec, v.Status)
	}
	v = of(2000)
	v.RefuseExpansion("no", time.Now())
	if v.Status.Phase != PhaseExpanding || v.Spec.CapacityMin != 2000 || v.Status.WantedMin != 2000 {
		t.Errorf("after another wish it is %+v, %+v", v.Spec, v.Status)
	}
}

// TestEachNodeTellsWhatItHasGrownTo: given a volume that grew while nodes have it, then it is said of each what it has
// grown to, or why not and when it is tried next; that it grows at its next use only where nobody has it.
func TestEachNodeTellsWhatItHasGrownTo(t *testing.T) {
	v := &Volume{Status: Status{Phase: PhaseReady, Capacity: 2048, NodeExpandPending: true}}
	s := Story{Volume: v, OnNodes: map[ids.Node]InventoryEntry{
		"a": {Staging: Present, ExpandedTo: 2048},
		"b": {Staging: Present, ExpandedTo: 1024, LastError: "expand: no", NextTry: time.Unix(60, 0)},
		"c": {Staging: Uncertain},
	}}
	follows := "the provider's volume has 2 KiB; the file system on node "
	if got, want := Describe(s), []string{
		"the file system on node a has grown to 2 KiB",
		follows + "b follows: expand: no; next try at 1970-01-01T00:01:00Z",
		follows + "c follows: the node has not reported yet that it has grown",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	clear(s.OnNodes)
	s.OnNodes["d"] = InventoryEntry{}
	if got := Describe(s); len(got) != 1 || !strings.Contains(got[0], "when the volume is used next") {
		t.Errorf("got %q", got)
	}
	for want, e := range map[Growth]InventoryEntry{
		Grown:         {Staging: Present, ExpandedTo: 2048, LastError: GrowthRefused},
		GrowthPending: {Staging: Present, LastError: "publish: no"},
		GrowthAtRest:  {Staging: Present, LastError: GrowthRefused + "no"},
	} {
		if got := v.GrowthOn(e); got != want {
			t.Errorf("%+v: %q", e, got)
		}
	}
}
