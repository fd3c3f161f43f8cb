package leaving

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/model/trust"
	"berth/internal/wire"
)

// servers reads a letter for each other server: v votes and answers, s votes and is silent, n does not vote yet, g is
// gone.
func servers(others string) []wire.ServerStatus {
	all := []wire.ServerStatus{{ServerAt: trust.ServerAt{Name: "me"}, Voter: true, Alive: true}}
	for _, c := range others {
		s := wire.ServerStatus{ServerAt: trust.ServerAt{Name: string(c)}, Voter: c != 'n', Alive: c != 's'}
		if c == 'g' {
			s.Removed = time.Unix(1, 0)
		}
		all = append(all, s)
	}
	return all
}

// TestAServerLeavesWhereTheOthersGoOn: the whole law, line by line.
func TestAServerLeavesWhereTheOthersGoOn(t *testing.T) {
	for _, c := range []struct {
		others string
		holds  bool
		why    string // empty: it leaves
	}{
		{"", false, "the only one"},
		{"g", false, "the only one"},
		{"v", false, ""},
		{"s", false, "of the 1 others that vote 0 answer"},
		{"n", false, "of the 0 others that vote 0 answer"},
		{"vv", false, ""},
		{"vs", false, "of the 2 others that vote 1 answer"},
		{"vvs", false, ""},
		{"vn", false, ""},
		{"vvg", false, ""},
		{"vvss", false, "of the 4 others that vote 2 answer"},
		{"vv", true, "holds allocations"},
	} {
		why := stays(servers(c.others), "me", c.holds)
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%q, the node holds %t: it stays because %q, want %q", c.others, c.holds, why, c.why)
		}
	}
	if why := stays(servers("vv"), "other", false); why != "it is in no list" {
		t.Errorf("one that is in no list: %q", why)
	}
}

// TestEachSignalHasItsSetting.
func TestEachSignalHasItsSetting(t *testing.T) {
	for _, c := range []struct {
		on   On
		by   os.Signal
		want bool
	}{
		{On{}, os.Interrupt, false},
		{On{Interrupt: true}, os.Interrupt, true},
		{On{Interrupt: true}, syscall.SIGTERM, false},
		{On{Terminate: true}, syscall.SIGTERM, true},
		{On{Terminate: true}, os.Interrupt, false},
		{On{Interrupt: true, Terminate: true}, nil, false},
	} {
		if got := c.on.By(c.by); got != c.want {
			t.Errorf("%+v by %v: %t", c.on, c.by, got)
		}
	}
}
