package follow

import (
	"fmt"
	"slices"
	"testing"

	"berth/api"
)

// Given more nodes than a person reads, each refused with figures of its own, when the reasons are shown, then a few
// stand there and the rest is counted; asked for all, all are there.
func TestFiguresOfManyNodesDoNotFillTheScreen(t *testing.T) {
	m := &api.AllocationMetric{}
	for i := range mostLines + 4 {
		m.Reasons = append(m.Reasons, api.NodeReason{Name: fmt.Sprint("n", i),
			Reason: fmt.Sprintf("memory: asks 900 MiB, %d of 1,000 free", i)})
	}
	short, all := reasons(m, false), reasons(m, true)
	if len(short) != mostLines+1 || short[mostLines] != "4 more reasons of other nodes (-verbose lists them)" {
		t.Errorf("%d lines: %q", len(short), short)
	}
	if len(all) != len(m.Reasons) {
		t.Errorf("with -verbose %d of %d", len(all), len(m.Reasons))
	}
}

// Given a node that is refused twice for the same reason, then it is named once; two nodes of one name, as one that was
// replaced and its successor, are told apart.
func TestANodeIsNamedOncePerReason(t *testing.T) {
	const old, fresh = "91b2c3d4-0000-4000-8000-00000000000b", "8f3a11c0-0000-4000-8000-00000000000a"
	refused := func(id, name, why string) api.NodeReason { return api.NodeReason{Node: id, Name: name, Reason: why} }
	m := &api.AllocationMetric{Reasons: []api.NodeReason{
		refused(old, "op10", "no plugin"), refused(old, "op10", "no plugin"),
		refused(old, "op10", "no room"), refused(fresh, "op10", "no room"),
	}}
	want := []string{"node op10: no plugin", "nodes op10 (91b2c3d4), op10 (8f3a11c0): no room"}
	if got := reasons(m, false); !slices.Equal(got, want) {
		t.Errorf("it says %q", got)
	}
}
