package follow

import (
	"strings"
	"testing"

	"berth/api"
	"berth/internal/cli/kit"
)

// Given a node on which many allocations wait for the same, when it is shown, then each reason stands there once, with
// how many it keeps waiting; where none waits nothing is said.
func TestANodeSaysOnceWhatManyAllocationsWaitFor(t *testing.T) {
	alloc := func(id, why string) *api.Allocation {
		return &api.Allocation{ID: id, Standing: &api.AllocStanding{Waits: why}}
	}
	const rest = "-0000-4000-8000-000000000001"
	const (
		a = "3bdbb91f" + rest
		b = "995a446c" + rest
		c = "bbd11526" + rest
		d = "fb9da490" + rest
	)
	const full = "all of its 5 addresses are in use (a larger bridge_network_subnet has more)"
	of := func(id string) string { return "make the network of allocation " + id[:8] + ": " + full }
	var out strings.Builder
	p := kit.New(nil, &out, &out, func(string) string { return "" }, nil, "").Out
	Waits(p, []*api.Allocation{{ID: "0"}, alloc("1", "")}, false)
	if out.Len() > 0 {
		t.Errorf("where none waits it says %s", out.String())
	}
	held := alloc(b, "volume v is held")
	Waits(p, []*api.Allocation{alloc(a, of(a)), held, alloc(c, of(c)), alloc(d, of(d))}, false)
	for _, want := range []string{
		"Waiting\n",
		`Allocation "3bdbb91f" and 2 others: make the network of the allocation: ` + full + "\n",
		`Allocation "995a446c": volume v is held` + "\n",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("it says %s, without %q", out.String(), want)
		}
	}
}
