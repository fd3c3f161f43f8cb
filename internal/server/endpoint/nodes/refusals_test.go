package nodes

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// TestAgentsThatAreRefusedAreShown: given agents that are refused beside the obeyed one of their node, a copy and one
// of another boot, when the node is read, then both are named with the one that is obeyed, since when, and why, and
// the list of nodes says that there are some; one that goes on trying keeps its time. They are gone when they try no
// more, and when another session begins.
func TestAgentsThatAreRefusedAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := withAgents(t)
		first := h.starts("a", "boot", "m").accepted(t)
		accepted := h.session().Since
		copied, rebooted := h.starts("copy", "boot", "m", "never stored"), h.starts("b", "boot of b", "m2", "a")
		begun := time.Now()
		copied.refused(t, fault.Conflict)
		time.Sleep(40 * time.Second)
		copied.refused(t, fault.Conflict)
		rebooted.refused(t, fault.NotReady)
		got := h.shown(t).Refused
		want := []wire.RefusedAgent{
			{Address: "agent of copy", Boot: "boot", Why: node.AdmitCopy, Since: begun},
			{Address: "agent of b", Boot: "boot of b", Why: node.AdmitWaits, Since: time.Now()},
		}
		if len(got) != len(want) {
			t.Fatalf("shown are %+v", got)
		}
		for i, w := range want {
			w.Obeyed, w.ObeyedSince = first.address, accepted
			w.Last = time.Now()
			if g := got[i]; g.Address != w.Address || g.Boot != w.Boot || g.Why != w.Why || !g.Since.Equal(w.Since) ||
				!g.Last.Equal(w.Last) || g.Obeyed != w.Obeyed || !g.ObeyedSince.Equal(w.ObeyedSince) {
				t.Errorf("shown is %+v, want %+v", g, w)
			}
		}
		if text := h.listed(t); !strings.Contains(text, ": 2 ") || !strings.Contains(text, "berth node status ") {
			t.Errorf("the list says %q", text)
		}
		time.Sleep(refusedShown)
		if got := h.shown(t).Refused; len(got) > 0 || h.listed(t) != "" {
			t.Errorf("they try no more, and are shown: %+v, %q", got, h.listed(t))
		}
		rebooted.refused(t, fault.NotReady)
		h.starts("c", "boot", "m", "a").accepted(t)
		if got := h.shown(t).Refused; len(got) > 0 {
			t.Errorf("another session has begun, shown are %+v", got)
		}
		first.refused(t, fault.Conflict)
		if got := h.shown(t).Refused; len(got) != 1 || got[0].Why != node.AdmitSuperseded {
			t.Errorf("of the superseded agent is shown %+v", got)
		}
	})
}

// TestAsManyRefusedAgentsAreShownAsAPersonReads: the newest stay.
func TestAsManyRefusedAgentsAreShownAsAPersonReads(t *testing.T) {
	var r refusals
	for _, name := range []string{"1", "2", "3", "4", "5", "6"} {
		start := wire.AgentStart{Registration: node.Registration{Address: name}}
		r.note(start, &node.Session{Node: "n"}, node.AdmitCopy)
	}
	var names []string
	for _, a := range r.of("n") {
		names = append(names, a.Address)
	}
	if !slices.Equal(names, []string{"3", "4", "5", "6"}) {
		t.Errorf("shown are %q", names)
	}
}

func (h *claimed) shown(t *testing.T) *wire.NodeGetReply {
	t.Helper()
	out, err := h.nodeGet(t.Context(), &wire.Ref[ids.Node]{ID: h.node})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// listed is what the list of nodes says of the node.
func (h *claimed) listed(t *testing.T) string {
	t.Helper()
	out, err := h.nodeList(t.Context(), &wire.Query{})
	if err != nil || len(out.Items) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	return out.Items[0].StatusDescription
}
