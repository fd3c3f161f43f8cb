package follow

import (
	"fmt"
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
