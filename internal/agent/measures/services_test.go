package measures_test

import (
	"testing"

	"berth/internal/agent/measures"
	"berth/internal/client/servicesync"
)

// TestServicesThatConsulLacksAreCounted: under the names that the page of metrics has, and of which node; one without
// an agent of Consul counts nothing.
func TestServicesThatConsulLacksAreCounted(t *testing.T) {
	want := map[string]float64{"berth.client.consul.services": 5, "berth.client.consul.unregistered": 2}
	got := measures.Services("node", &servicesync.Count{All: 5, Unregistered: 2})
	for _, g := range got {
		if want[g.Name] != g.Value || g.Labels["node_id"] != "node" {
			t.Errorf("%+v", g)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d numbers", len(got))
	}
	if got := measures.Services("node", nil); len(got) > 0 {
		t.Errorf("without Consul: %+v", got)
	}
}
