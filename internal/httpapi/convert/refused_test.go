package convert

import (
	"strings"
	"testing"
	"time"

	"berth/internal/model/node"
	"berth/internal/wire"
)

// TestARefusedAgentIsShownWithTheWayOut: whyever an agent is refused, people read both addresses, since when, and what
// to do; that another boot waits is told from a copy.
func TestARefusedAgentIsShownWithTheWayOut(t *testing.T) {
	at := time.Unix(1, 0)
	for why, says := range map[node.Admission]string{
		node.AdmitCopy:       "copy",
		node.AdmitSuperseded: "later start",
		node.AdmitWaits:      "another boot",
	} {
		reply := &wire.NodeGetReply{Refused: []wire.RefusedAgent{{
			Address:     "new (10.0.0.9)",
			Why:         why,
			Since:       at,
			Last:        at.Add(time.Second),
			Obeyed:      "old (10.0.0.2)",
			ObeyedSince: at.Add(-time.Hour),
		}}}
		shown := NodeWith(&node.Node{ID: "8f3a11c0-0000-4000-8000-00000000000a"}, reply).RefusedAgents
		if len(shown) != 1 {
			t.Fatalf("%s: shown are %d", why, len(shown))
		}
		a := shown[0]
		if a.Address != "new (10.0.0.9)" || a.ObeyedAddress != "old (10.0.0.2)" || !a.Since.Equal(at) ||
			!a.LastTry.Equal(at.Add(time.Second)) || !a.ObeyedSince.Equal(at.Add(-time.Hour)) {
			t.Errorf("%s: shown is %+v", why, a)
		}
		if !strings.Contains(a.Reason, says) || !strings.Contains(a.Reason, a.ObeyedAddress) ||
			!strings.Contains(a.Hint, a.ObeyedAddress) || !strings.Contains(a.Hint, "empty data_dir") {
			t.Errorf("%s: %s (%s)", why, a.Reason, a.Hint)
		}
		confirm := strings.Contains(a.Hint, "reboot-confirm -reason … 8f3a11c0")
		if confirm != (why != node.AdmitWaits) {
			t.Errorf("%s: %s", why, a.Hint)
		}
	}
}
