package e2e

import (
	"fmt"
	"testing"
)

// TestClusterNetworkIsCut: given three machines with tasks that write to volumes, when the machine whose server leads
// is cut off, then the two others go on with a new leader, the one alone answers nothing that may be old, and tasks on
// both sides go on; whole again, all follow one leader. When one that does not lead is cut off, nothing changes for the
// others. No task is started anew, no volume is given away, and nothing is left.
func TestClusterNetworkIsCut(t *testing.T) {
	c := newCluster(t)
	var pids []int
	for i := range c.machines {
		pids = append(pids, c.use(i, fmt.Sprintf("data%d", i+1)))
	}
	old := c.leads()
	calls := len(c.p.calls())
	c.cut(old)
	now := c.leads(old)
	if now == old {
		t.Fatalf("s%d leads, though it is cut off", old+1)
	}
	c.nobodyLeads(old)
	c.quickly(c.other(old), c.other(old, now), "without-the-leader")
	c.untouched("the leader is cut off", pids...)
	c.join(old)
	c.whole(old)
	c.untouched("the leader is back", pids...)

	now = c.leads()
	one := c.other(now)
	c.cut(one)
	if c.leads(one) != now {
		t.Error("another one leads, since one that followed is cut off")
	}
	c.quickly(now, now, "without-one")
	c.untouched("one is cut off", pids...)
	c.join(one)
	c.whole(one)
	c.untouched("it is back", pids...)
	if more := c.p.calls()[calls:]; len(more) > 0 {
		t.Errorf("cuts made calls at the plugin: %v", more)
	}
	c.over("data1", "data2", "data3")
}
