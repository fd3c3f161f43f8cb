package keeper_test

import (
	"slices"
	"testing"

	"berth/internal/client/networks/keeper"
	"berth/internal/model/alloc"
	"berth/internal/port/cni"
)

// TestPluginsAreGivenEveryPort: each port of the node leads to the alloc by both protocols, from the address that the
// job asks for, and to the same number where it names none.
func TestPluginsAreGivenEveryPort(t *testing.T) {
	got := keeper.PluginPorts([]alloc.PortMapping{
		{Label: "http", Value: 20_000, To: 80, HostIP: "192.0.2.1"},
		{Label: "same", Value: 20_001},
		{Label: "taken", Value: 20_002, To: -1, HostIP: "2001:db8::1"},
	})
	want := []cni.Port{
		{HostPort: 20_000, ContainerPort: 80, Protocol: "tcp", HostIP: "192.0.2.1"},
		{HostPort: 20_000, ContainerPort: 80, Protocol: "udp", HostIP: "192.0.2.1"},
		{HostPort: 20_001, ContainerPort: 20_001, Protocol: "tcp"},
		{HostPort: 20_001, ContainerPort: 20_001, Protocol: "udp"},
		{HostPort: 20_002, ContainerPort: 20_002, Protocol: "tcp", HostIP: "2001:db8::1"},
		{HostPort: 20_002, ContainerPort: 20_002, Protocol: "udp", HostIP: "2001:db8::1"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
