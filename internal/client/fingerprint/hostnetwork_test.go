package fingerprint

import (
	"net/netip"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given host networks that are there, by link, by subnet or by both, and one that is not, then those that are there are
// offered by name, and the other is a problem that names it. A default link that is not there leaves no address rather
// than another one.
func TestAddressesAreOfferedByName(t *testing.T) {
	within := netip.MustParsePrefix("127.0.0.0/8")
	o := Options{HostNetworks: []HostNetwork{
		{Name: "subnet", Within: within},
		{Name: "both", Interface: "lo", Within: within, ReservedPorts: []int{80}},
		{Name: "gone", Interface: "lo", Within: netip.MustParsePrefix("192.0.2.0/24")},
	}}
	f := Found{Attributes: map[string]string{}}
	err := Network(t.Context(), &f, o)
	if !fault.Has(err, fault.NotFound) || !strings.Contains(err.Error(), `host_network "gone"`) {
		t.Errorf("one that is not there: %v", err)
	}
	all := f.Resources.HostNetworks
	if len(all) != 2 || all[0].Name != "both" || all[0].Address != "127.0.0.1" || all[0].Device != "lo" ||
		len(all[0].ReservedPorts) != 1 || all[1].Name != "subnet" {
		t.Errorf("offered are %+v", all)
	}
	f = Found{Attributes: map[string]string{}}
	if err := Network(t.Context(), &f, Options{Interface: "no-such-link"}); err == nil || f.Resources.IP != "" {
		t.Errorf("without its link the node offers %q, %v", f.Resources.IP, err)
	}
}
