package filter

import (
	"strings"
	"testing"

	"berth/internal/model/job"
	"berth/internal/model/network"
	"berth/internal/model/node"
)

// Given nodes that can make networks or cannot, and that have addresses or lack them, then a group goes to those that
// have what its network asks for; the others say what they lack.
func TestAGroupGoesToNodesThatHaveItsNetwork(t *testing.T) {
	can := &node.Node{
		Attributes: map[string]string{network.AttributeBridge: "1", network.AttributeNone: "1",
			network.AttributeCNI + "lab": "1"},
		Resources: node.Resources{
			IP:           "192.0.2.1",
			HostNetworks: []node.HostNetwork{{Name: "lan", Address: "10.0.0.1"}},
		},
	}
	cannot := &node.Node{Attributes: map[string]string{network.AttributeBridgeWhy: "no nftables there"}}
	port := []job.Port{{Label: "http"}}
	for what, c := range map[string]struct {
		net         job.NetworkResource
		key, reason string // of the node that cannot
	}{
		"bridge":     {job.NetworkResource{Mode: "bridge"}, "missing network", "no nftables there"},
		"none":       {job.NetworkResource{Mode: "none"}, "missing network", `mode "none"`},
		"of plugins": {job.NetworkResource{Mode: "cni/lab"}, "missing network", `no network "lab" of CNI`},
		"a port": {job.NetworkResource{Mode: "host", DynamicPorts: port}, "missing network",
			"no address for ports"},
		"a host network": {job.NetworkResource{ReservedPorts: []job.Port{{Label: "p", HostNetwork: "lan"}}},
			`missing host network "lan" for port "p"`, `no host network "lan"`},
	} {
		var f Networks
		if !f.Prepare(&Request{Group: &job.TaskGroup{Networks: []*job.NetworkResource{&c.net}}}) {
			t.Errorf("%s: nothing is checked", what)
		}
		if key := f.Check(can); key != "" {
			t.Errorf("%s: a node that has all is refused: %s", what, key)
		}
		if key := f.Check(cannot); key != c.key {
			t.Errorf("%s: the key is %q", what, key)
		}
		if reason, hint := f.Explain(cannot); !strings.Contains(reason, c.reason) || hint == "" {
			t.Errorf("%s: the reason is %q (%s)", what, reason, hint)
		}
	}
	var f Networks
	if f.Prepare(&Request{Group: &job.TaskGroup{Networks: []*job.NetworkResource{{Mode: "host"}}}}) {
		t.Error("the node's own network without ports is checked")
	}
}
