package driveroptions

import (
	"bytes"
	"testing"

	"berth/internal/model/node"
	"berth/internal/model/taskconfig"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// Given what drivers of a node take, when the node registers again, and when the state is written to a snapshot and
// read again, then it is still recorded; a driver that the node lost is forgotten with it, and a node that is not there
// has none.
func TestWhatDriversTakeOutlivesRegistrationsAndSnapshots(t *testing.T) {
	c := localstate.New(t)
	register := func(drivers ...string) {
		n := &node.Node{ID: "n", Status: node.StatusReady, Drivers: map[string]*node.Driver{}}
		for _, name := range drivers {
			n.Drivers[name] = &node.Driver{Detected: true, Healthy: true}
		}
		c.Must(t, &fsm.NodeRegister{Node: n})
	}
	takes := taskconfig.Schema{"a": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
		"b": {Kind: taskconfig.Text, OneOf: []string{"x", "y"}, Required: true},
	}}}
	put := &Put{Node: "n", Drivers: map[string]taskconfig.Schema{"d": takes, "gone": takes}}
	c.Must(t, put)
	register("d", "e")
	c.Must(t, put)
	register("d", "e")
	var saved bytes.Buffer
	if err := c.Store.Snapshot().Persist(&saved); err != nil {
		t.Fatal(err)
	}
	if err := c.Store.Restore(&saved); err != nil {
		t.Fatal(err)
	}
	s := c.Store.Snapshot()
	n := s.Node(nil, "n")
	if !n.Drivers["d"].Options.Equal(takes) || n.Drivers["e"].Options != nil || len(n.Drivers) != 2 {
		t.Errorf("recorded: %+v, %+v of %d drivers", n.Drivers["d"], n.Drivers["e"], len(n.Drivers))
	}
	same := Put{Node: "n", Drivers: Of(n)}
	if less := (&Put{Node: "n"}); same.Changes(s) || !less.Changes(s) {
		t.Error("what changes is wrong")
	}
	if nobody := (&Put{Node: "other"}); nobody.Changes(s) {
		t.Error("a node that is not there changes")
	}
}
