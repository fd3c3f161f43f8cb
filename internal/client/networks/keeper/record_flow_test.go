package keeper

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/network"
)

func pool(t *testing.T, text string, v6 bool) network.Pool {
	t.Helper()
	p, err := network.ParsePool(text, v6)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Given records that have addresses, are being released, or are of other modes, then a new one gets an address that
// none of them has, and one that has an address keeps it as long as it lies in the subnet.
func TestARecordChoosesWhatNobodyHas(t *testing.T) {
	v4, v6 := pool(t, "10.0.0.0/29", false), pool(t, "fd00::/64", true)
	all := map[string]*Record{}
	for i, id := range []ids.Alloc{"a", "b", "c", "d", "e"} {
		r := &Record{Alloc: id, Mode: network.ModeBridge, Ending: i == 0}
		if err := r.choose(v4, v6, taken(all)); err != nil {
			t.Fatal(err)
		}
		a4, a6 := r.addresses()
		if !v4.Prefix().Contains(a4) || a4 == v4.Gateway() || !v6.Prefix().Contains(a6) || taken(all)[a4] {
			t.Errorf("%s gets %s and %s", id, a4, a6)
		}
		all[string(id)] = r
	}
	more := &Record{Alloc: "f", Mode: network.ModeBridge}
	if err := more.choose(v4, network.Pool{}, taken(all)); !fault.Has(err, fault.Exhausted) {
		t.Errorf("all five are taken, and one more gets %s: %v", more.IPv4, err)
	}
	none := &Record{Alloc: "f", Mode: network.ModeNone}
	if err := none.choose(v4, v6, taken(all)); err != nil || none.IPv4 != "" {
		t.Errorf("mode none has %q, %v", none.IPv4, err)
	}
	kept := *all["c"]
	if err := kept.choose(v4, network.Pool{}, taken(all)); err != nil || kept.IPv4 != all["c"].IPv4 || kept.IPv6 != "" {
		t.Errorf("it keeps %q and %q, had %q: %v", kept.IPv4, kept.IPv6, all["c"].IPv4, err)
	}
	other := pool(t, "10.9.0.0/24", false)
	if err := kept.choose(other, v6, taken(all)); err != nil || !other.Prefix().Contains(address(kept.IPv4)) {
		t.Errorf("in another subnet it has %q: %v", kept.IPv4, err)
	}
}

// Given records of every kind, then what is published is that of allocs on the bridge which are not being released.
func TestWhatIsReleasedIsNotPublished(t *testing.T) {
	ports := func(n int) []alloc.PortMapping { return []alloc.PortMapping{{Value: n, To: 80, HostIP: "192.0.2.1"}} }
	all := map[string]*Record{
		"a": {Mode: network.ModeBridge, IPv4: "10.0.0.2", Ports: ports(1)},
		"b": {Mode: network.ModeBridge, IPv4: "10.0.0.3", Ports: ports(2), Ending: true},
		"c": {Mode: network.ModeHost, Ports: ports(3)},
	}
	to := netip.MustParseAddr("10.0.0.2")
	want := []network.Published{
		{Host: netip.MustParseAddr("127.0.0.1"), Port: 1, To: to, ToPort: 80},
		{Host: netip.MustParseAddr("192.0.2.1"), Port: 1, To: to, ToPort: 80},
	}
	same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(want, published(all), same); diff != "" {
		t.Error(diff)
	}
	if !anyBridged(all) || anyBridged(map[string]*Record{"c": all["c"]}) {
		t.Error("who is on the bridge is not known")
	}
}

// Given what an alloc wants of a record, then the ports are taken over, another mode is refused, and what is being
// released is waited for.
func TestWhatAnAllocWantsOfItsRecord(t *testing.T) {
	r := &Record{Alloc: "a", Mode: network.ModeBridge, IPv4: "10.0.0.2"}
	if err := r.merge(network.ModeBridge, []alloc.PortMapping{{Value: 1}}); err != nil || len(r.Ports) != 1 {
		t.Errorf("it has ports %v, %v", r.Ports, err)
	}
	if err := r.merge(network.ModeNone, nil); !fault.Has(err, fault.Invalid) {
		t.Errorf("another mode: %v", err)
	}
	r.Ending = true
	if err := r.merge(network.ModeBridge, nil); !fault.Has(err, fault.NotReady) {
		t.Errorf("it is being released: %v", err)
	}
	dns := &job.DNS{Servers: []string{"192.0.2.53"}}
	got := r.status(dns)
	if diff := cmp.Diff(&alloc.NetworkStatus{Interface: "eth0", Address: "10.0.0.2", DNS: dns}, got); diff != "" {
		t.Error(diff)
	}
	if s := (&Record{Mode: network.ModeHost}).status(dns); s != nil {
		t.Errorf("the node's own network has a status: %+v", s)
	}
	r.adopt(nil)
	if r.Mode != network.ModeNone {
		t.Errorf("a namespace without a link is of mode %s", r.Mode)
	}
	r.adopt([]netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")})
	if r.Mode != network.ModeBridge || r.IPv4 != "10.0.0.7" || r.IPv6 != "fd00::7" {
		t.Errorf("a namespace with addresses is %+v", r)
	}
}
