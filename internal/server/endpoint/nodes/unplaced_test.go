package nodes

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/state"
)

// TestWhatIsNotPlacedIsSaidOnce: given a node that reports plugins which the servers have not placed there, then that
// is said once, with the node and the first of the plugins, and again when it is another.
func TestWhatIsNotPlacedIsSaidOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	s, u := state.New().Snapshot(), &unplaced{}
	n := &node.Node{ID: "n1"}
	u.say(log, s, n)
	if out.Len() > 0 {
		t.Errorf("a node without plugins: %s", out.String())
	}
	for _, p := range []string{"one", "two", "three", "four\n", strings.Repeat("five", 1000)} {
		n.CSI = append(n.CSI, &plugin.Instance{Plugin: "p-" + ids.Plugin(p), Role: plugin.RoleController})
	}
	u.say(log, s, n)
	u.say(log, s, n)
	text := out.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") || !strings.Contains(text, "n1") ||
		!strings.Contains(text, "p-one") || !strings.Contains(text, "and 2 more") {
		t.Errorf("said: %s", text)
	}
	n.CSI = n.CSI[4:]
	u.say(log, s, n)
	if text := strings.TrimPrefix(out.String(), text); strings.Count(text, "\n") != 1 || len(text) > 1000 {
		t.Errorf("said of another: %s", text)
	}
}

// TestAnInstanceWhoseAllocHasJustEndedIsNoComplaint: a node says that an alloc has ended before it says that the plugin
// in it is gone. That is said to who looks for it alone.
func TestAnInstanceWhoseAllocHasJustEndedIsNoComplaint(t *testing.T) {
	store := state.New()
	ended := &alloc.Alloc{ID: "a", Node: "n1", ClientStatus: alloc.ClientComplete}
	err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error { tx.PutAlloc(ended); return nil })
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	gone := &plugin.Instance{Plugin: "p", Role: plugin.RoleNode, Alloc: ended.ID}
	u, n := &unplaced{}, &node.Node{ID: "n1", CSI: []*plugin.Instance{gone}}
	u.say(log, store.Snapshot(), n)
	if text := out.String(); strings.Count(text, "level=DEBUG") != 1 || strings.Count(text, "\n") != 1 {
		t.Errorf("said: %q", text)
	}
	n.CSI = append(n.CSI, &plugin.Instance{Plugin: "q", Role: plugin.RoleNode, Alloc: "none"})
	(&unplaced{}).say(log, store.Snapshot(), n)
	if !strings.Contains(out.String(), "level=WARN") {
		t.Errorf("beside one that was never placed: %q", out.String())
	}
}
