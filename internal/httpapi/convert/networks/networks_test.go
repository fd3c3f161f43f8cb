package networks

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/api"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Given an alloc with a static and a chosen port in mode bridge, then clients see both where they look for them, and
// the network as its node reports it; before it has reported they see none, and on the node's own network an empty one.
func TestNetworksAreShownAsClientsKnowThem(t *testing.T) {
	dns := &job.DNS{Servers: []string{"192.0.2.53"}}
	g := &job.TaskGroup{Networks: []*job.NetworkResource{{
		Mode:          "bridge",
		Hostname:      "web",
		DNS:           dns,
		ReservedPorts: []job.Port{{Label: "http", Value: 8080, To: 80}},
		DynamicPorts:  []job.Port{{Label: "admin"}},
	}}}
	a := &alloc.Alloc{
		Resources: alloc.Resources{Ports: []alloc.PortMapping{
			{Label: "http", Value: 8080, To: 80, HostIP: "192.0.2.1"},
			{Label: "admin", Value: 23456, HostIP: "10.0.0.1", HostNetwork: "lan"},
		}},
		TaskStates: map[string]*alloc.TaskState{},
		Network: &alloc.NetworkStatus{
			Interface: "eth0",
			Address:   "172.26.64.2",
			IPv6:      "fd00::2",
			DNS:       dns,
		},
	}
	var got api.AllocatedSharedResources
	Allocated(&got, a, g)
	public := &api.DNSConfig{Servers: []string{"192.0.2.53"}}
	want := api.AllocatedSharedResources{
		Networks: []*api.NetworkResource{{
			Mode:          "bridge",
			IP:            "192.0.2.1",
			Hostname:      "web",
			DNS:           public,
			ReservedPorts: []api.Port{{Label: "http", Value: 8080, To: 80, HostNetwork: "default"}},
			DynamicPorts:  []api.Port{{Label: "admin", Value: 23456, HostNetwork: "lan"}},
		}},
		Ports: []api.PortMapping{
			{Label: "http", Value: 8080, To: 80, HostIP: "192.0.2.1"},
			{Label: "admin", Value: 23456, HostIP: "10.0.0.1"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&api.AllocNetworkStatus{
		InterfaceName: "eth0",
		Address:       "172.26.64.2",
		AddressIPv6:   "fd00::2",
		DNS:           public,
	}, Status(a)); diff != "" {
		t.Error(diff)
	}
	if s := Status(&alloc.Alloc{}); s != nil {
		t.Errorf("before the node has reported: %+v", s)
	}
	if s := Status(&alloc.Alloc{TaskStates: map[string]*alloc.TaskState{}}); s == nil || s.Address != "" {
		t.Errorf("on the node's own network: %+v", s)
	}
	r := &node.Resources{IP: "192.0.2.1", Device: "eth0", HostNetworks: []node.HostNetwork{
		{Name: "lan", Device: "eth1", Address: "fd00::1", ReservedPorts: []int{443, 80}},
	}}
	var n api.NodeResources
	OfNode(&n, r)
	if len(n.NodeNetworks) != 2 || n.NodeNetworks[1].Addresses[0].Alias != "lan" ||
		n.NodeNetworks[1].Addresses[0].Family != "ipv6" || n.Networks[0].CIDR != "192.0.2.1/32" {
		t.Errorf("the node's addresses: %+v", n)
	}
	h := Hosts(r)["lan"]
	if h == nil || h.CIDR != "fd00::1/128" || h.ReservedPorts != "80,443" || h.Interface != "eth1" {
		t.Errorf("the host network: %+v", h)
	}
}
