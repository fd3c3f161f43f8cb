package alloc

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/job"
)

// Given reports with a network and without, then what was reported last stays: an agent that has just started has not
// looked yet. A network that no node has is refused.
func TestTheNetworkOfAReport(t *testing.T) {
	before, now := &NetworkStatus{Address: "10.0.0.2"}, &NetworkStatus{Address: "10.0.0.3"}
	if got := (&Alloc{}).NetworkOr(before); got != before {
		t.Errorf("a report without a network makes it %+v", got)
	}
	if got := (&Alloc{Network: now}).NetworkOr(before); got != now {
		t.Errorf("a report with another network makes it %+v", got)
	}
	for what, n := range map[string]*NetworkStatus{
		"a long address":    {Address: strings.Repeat("1", 100)},
		"a long IPv6":       {IPv6: strings.Repeat("1", 100)},
		"a long link":       {Interface: strings.Repeat("e", 16)},
		"many servers":      {DNS: &job.DNS{Servers: make([]string, 100)}},
		"a long domain":     {DNS: &job.DNS{Searches: []string{strings.Repeat("a", MaxReportedText+1)}}},
		"many more options": {DNS: &job.DNS{Options: make([]string, 100)}},
	} {
		a := &Alloc{ID: "a", ClientStatus: ClientRunning, Network: n}
		if err := a.CheckReport(); !fault.Has(err, fault.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	fine := &Alloc{ID: "a", ClientStatus: ClientRunning, Network: &NetworkStatus{
		Interface: "eth0",
		Address:   "172.26.64.2",
		IPv6:      "fd00:be::2",
		DNS:       &job.DNS{Servers: []string{"192.0.2.53"}},
	}}
	if err := fine.CheckReport(); err != nil {
		t.Errorf("a proper network: %v", err)
	}
}
