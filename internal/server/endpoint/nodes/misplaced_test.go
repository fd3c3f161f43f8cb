package nodes

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// TestANodeReportsNothingOfOthers: given an alloc that is placed on another node, when a node reports its end in one
// report with that of its own, then the former is left out and said with both nodes, and the latter is taken over.
func TestANodeReportsNothingOfOthers(t *testing.T) {
	h, _ := withAgents(t)
	var said bytes.Buffer
	h.cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
	a := h.starts("a", "boot", "m").accepted(t)
	own, other := ids.Alloc(ids.New()), ids.Alloc(ids.New())
	gone := ids.Alloc(ids.New())
	err := h.c.Store.Write(state.Stamp{Index: h.c.Store.Snapshot().Index() + 1}, func(tx *state.Tx) error {
		for id, on := range map[ids.Alloc]ids.Node{own: a.who.Node, other: "another-node"} {
			tx.PutAlloc(&alloc.Alloc{ID: id, Node: on, ClientStatus: alloc.ClientRunning})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.c.Skip(1)
	req := &wire.NodeUpdateRequest{NodeIdentity: a.who}
	for _, id := range []ids.Alloc{other, own, gone} {
		req.Allocs = append(req.Allocs, &alloc.Alloc{ID: id, ClientStatus: alloc.ClientFailed})
	}
	if _, err := h.nodeUpdate(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	s := h.c.Store.Snapshot()
	if got := s.Alloc(nil, own).ClientStatus; got != alloc.ClientFailed {
		t.Errorf("its own is %s", got)
	}
	if got := s.Alloc(nil, other).ClientStatus; got != alloc.ClientRunning {
		t.Errorf("another's is %s", got)
	}
	text := said.String()
	if strings.Count(text, "placed on another node") != 1 || !strings.Contains(text, string(other)) ||
		!strings.Contains(text, string(a.who.Node)) || !strings.Contains(text, "another-node") ||
		strings.Contains(text, string(gone)) {
		t.Errorf("said: %s", text)
	}
}

// TestThatAMachineIsDeadItsNodeDoesNotSay: a person attests it, and what depends on it is destroyed without the node.
func TestThatAMachineIsDeadItsNodeDoesNotSay(t *testing.T) {
	h, _ := withAgents(t)
	a := h.starts("a", "boot", "m").accepted(t)
	start := a.start
	_, err := h.nodeRegister(t.Context(), &wire.NodeRegisterRequest{
		NodeIdentity: a.who,
		Start:        &start,
		Info:         &node.Node{ID: a.who.Node, Name: "n", ReplacedBy: "another"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := h.c.Store.Snapshot().Node(nil, a.who.Node); n.ReplacedBy != "" {
		t.Errorf("it says that %q does its work, and is believed", n.ReplacedBy)
	}
}
