package nodes

import (
	"context"
	"testing"

	"berth/internal/model/node"
	"berth/internal/model/taskconfig"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/driveroptions"
	"berth/internal/server/fsm/sessions"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// watched lets a test see what is proposed.
type watched struct {
	fsm.Proposer
	see func(fsm.Command)
}

func (w watched) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	w.see(cmd)
	return w.Proposer.Propose(ctx, cmd)
}

// Given an agent that says what its driver takes, when it registers again and again, then that is recorded once, and
// what changes of the node takes one entry as before; what an older agent does not say is known no more. While a server
// of the cluster does not understand it, it is not recorded.
func TestWhatDriversTakeIsRecordedWhenItChanges(t *testing.T) {
	h, _ := withAgents(t)
	h.cfg.Proposer = watched{h.cfg.Proposer, func(cmd fsm.Command) {
		if r, ok := cmd.(*sessions.Register); ok && r.Node.Node.Drivers["d"].Options != nil {
			t.Error("the registration in the log says what the driver takes")
		}
	}}
	a := h.starts("a", "boot", "m")
	takes := taskconfig.Schema{"command": {Kind: taskconfig.Text, Required: true}}
	registers := func(rack string, options taskconfig.Schema) (entries uint64, recorded taskconfig.Schema) {
		t.Helper()
		before := h.c.Store.Snapshot().Index()
		start := a.start
		_, err := h.nodeRegister(t.Context(), &wire.NodeRegisterRequest{
			NodeIdentity: a.who,
			Start:        &start,
			Info: &node.Node{ID: a.who.Node, Name: "n", Meta: map[string]string{"rack": rack},
				Drivers: map[string]*node.Driver{"d": {Detected: true, Healthy: true, Options: options}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := h.c.Store.Snapshot()
		return s.Index() - before, s.Node(nil, h.node).Drivers["d"].Options
	}
	schema := func(n uint64) {
		t.Helper()
		err := h.c.Store.Write(state.Stamp{Index: h.c.Store.Snapshot().Index() + 1}, func(tx *state.Tx) error {
			m := *tx.Meta(nil)
			m.Schema = n
			tx.PutMeta(&m)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h.c.Skip(1)
	}
	schema(driveroptions.Schema - 1)
	if entries, recorded := registers("r0", takes); entries != 1 || recorded != nil {
		t.Errorf("beside an older server: %d entries, %v", entries, recorded)
	}
	schema(driveroptions.Schema)
	for _, step := range []struct {
		rack    string
		options taskconfig.Schema
		entries uint64
	}{
		{"r1", takes, 2},
		{"r1", takes, 1},
		{"r2", takes, 1},
		{"r2", taskconfig.Schema{"command": {Kind: taskconfig.Texts}}, 2},
		{"r2", nil, 2},
		{"r3", nil, 1},
	} {
		if entries, recorded := registers(step.rack, step.options); entries != step.entries ||
			!recorded.Equal(step.options) {
			t.Errorf("%+v: %d entries, recorded %v", step, entries, recorded)
		}
	}
}
