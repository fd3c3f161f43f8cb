package e2e

import (
	"testing"

	"berth/api"
	"berth/internal/conformance/csi/proxy"
)

// TestAPluginIsAskedForAsManyCallsAtOnceAsItsJobSays: given a plugin whose job says two, and whose calls take a while,
// when six volumes are made at once and six allocations begin to use one each, then two calls of a kind are made at
// once, and never more.
func TestAPluginIsAskedForAsManyCallsAtOnceAsItsJobSays(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPluginOf("own", "raw_exec")
	p.more = "max_parallel = 2"
	p.faults = []string{"(CreateVolume * delay 300ms)", "(NodePublish * delay 300ms)"}
	p.begin()
	m.run(writer{id: "user", volume: "v", count: 6, create: `plugin_id = "own"
capacity_min = "64MiB"`}.hcl())
	m.running("user", 6)
	for _, rpc := range []string{"CreateVolume", "NodePublishVolume"} {
		if calls, most := p.atOnce(rpc); calls != 6 || most != 2 {
			t.Errorf("%s: %d calls, %d of them at once at the most; want 6 and 2", rpc, calls, most)
		}
	}
	p.rules()
	m.stopJob("user")
	found, _, err := m.api.Volumes().List(t.Context(), &api.QueryOptions{})
	must(t, err)
	for _, v := range found {
		p.atRest(v.ID)
		m.remove(v.ID)
	}
}

// atOnce is how many calls of an RPC there were, and how many of them at once at the most.
func (p *judged) atOnce(rpc string) (calls, most int) {
	now := 0
	for _, e := range p.entries() {
		switch {
		case e.RPC != rpc:
		case e.Kind == proxy.CallBegins:
			calls++
			now++
			most = max(most, now)
		case e.Kind == proxy.CallEnds:
			now--
		}
	}
	return calls, most
}
