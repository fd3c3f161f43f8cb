package nodenetwork

import (
	"errors"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given settings of a node's networks, then what cannot work is refused by the name of the setting, with a way out, and
// what is left out has its default.
func TestWhatIsSetOfNetworksIsChecked(t *testing.T) {
	none := func(string) ([]int, error) { return nil, nil }
	for what, c := range map[string]struct {
		settings Settings
		refusal  string
	}{
		"nothing":            {Settings{}, ""},
		"a name":             {Settings{Bridge: "a/b"}, "client bridge_network_name a/b"},
		"a subnet":           {Settings{Subnet: "10.0.0.1/24"}, "client bridge_network_subnet"},
		"the other kind":     {Settings{Subnet6: "10.0.0.0/24"}, "client bridge_network_subnet_ipv6"},
		"the default's name": {Settings{Hosts: []*HostNetwork{{Name: "default", CIDR: "10.0.0.0/8"}}}, "stands for"},
		"no address":         {Settings{Hosts: []*HostNetwork{{Name: "lan"}}}, "neither a link nor a subnet"},
		"no subnet":          {Settings{Hosts: []*HostNetwork{{Name: "lan", CIDR: "10.0.0.0"}}}, `"lan" cidr`},
		"a network":          {Settings{Hosts: []*HostNetwork{{Name: "lan", Interface: "eth1"}}}, ""},
	} {
		err := c.settings.Check(none)
		switch {
		case c.refusal == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case c.refusal != "" && (!fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: %v, want %q", what, err, c.refusal)
		}
	}
	ports := errors.New("no ports")
	hosts := Settings{Hosts: []*HostNetwork{{Name: "lan", Interface: "eth1"}}}
	if err := hosts.Check(func(string) ([]int, error) { return nil, ports }); !errors.Is(err, ports) {
		t.Errorf("reserved ports are not read: %v", err)
	}
	b, err := Settings{}.Of()
	if err != nil || b.Name != "berth" || b.IPv4.String() != "172.26.64.0/20" || b.IPv6.Valid() || b.Hairpin {
		t.Errorf("by default the bridge is %+v, %v", b, err)
	}
}
