package network

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Given any subnet and any keys, then every address that is picked lies in it, is nobody else's, neither the network's,
// the bridge's nor the broadcast's, and is the same for the same key as long as it is free; all of them are given
// before one is refused.
func TestEveryAddressIsPickedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(24, 30).Draw(t, "bits")
		p, err := ParsePool(netip.PrefixFrom(netip.MustParseAddr("10.1.2.0"), bits).Masked().String(), false)
		if err != nil {
			t.Fatal(err)
		}
		last := p.Prefix().Addr()
		for range 1<<(32-bits) - 1 {
			last = last.Next()
		}
		taken := map[netip.Addr]bool{}
		for range p.Size() {
			key := rapid.String().Draw(t, "key")
			a, err := p.Pick(key, taken)
			again, _ := p.Pick(key, taken)
			switch {
			case err != nil || a != again || taken[a] || !p.Prefix().Contains(a):
				t.Fatalf("%q gets %s, then %s: %v", key, a, again, err)
			case a == p.Gateway() || a == p.Prefix().Addr() || a == last:
				t.Fatalf("%q gets %s, which is no alloc's", key, a)
			}
			taken[a] = true
		}
		if a, err := p.Pick("one more", taken); !fault.Has(err, fault.Exhausted) {
			t.Fatalf("one more gets %s, %v", a, err)
		}
	})
}

func TestWhatIsNoSubnetOfTheBridge(t *testing.T) {
	for text, v6 := range map[string]bool{
		"":               false,
		"10.0.0.1":       false,
		"10.0.0.1/24":    false, // bits behind the prefix
		"10.0.0.0/31":    false, // no room
		"127.0.0.0/24":   false,
		"224.0.0.0/8":    false,
		"fd00::/64":      false,
		"10.0.0.0/24":    true,
		"fe80::/64":      true,
		"fd00::/127":     true,
		"::ffff:0:0/112": true,
	} {
		if p, err := ParsePool(text, v6); !fault.Has(err, fault.Invalid) {
			t.Errorf("%q is %s, %v", text, p, err)
		}
	}
	six, err := ParsePool("fd00::/64", true)
	if err != nil || six.Gateway().String() != "fd00::1" || six.Size() != maxPool6 {
		t.Errorf("fd00::/64: %s of %d, %v", six.Gateway(), six.Size(), err)
	}
}

func TestNamesOfLinksAreOursAndFit(t *testing.T) {
	name := Link(ids.Alloc(ids.New()))
	if len(name) > maxLink || !IsLink(name) {
		t.Errorf("%s is no link of an alloc", name)
	}
	for _, other := range []string{"berth", "eth0", "berth-12345678", "berthABCDEF1234", "docker012345678"} {
		if IsLink(other) {
			t.Errorf("%s is taken for a link of an alloc", other)
		}
	}
	if Table(DefaultBridge) != "berth" || Table("blue") != "berth-blue" {
		t.Error("tables do not go with their bridges")
	}
	for name, fine := range map[string]bool{"berth": true, "br.0": true, "": false, "a/b": false, "..": false,
		"sixteen-bytes-xx": false, "berth0123456789": false, "berth%d": false} {
		if why := ValidBridge(name); (why == "") != fine {
			t.Errorf("%q as a bridge: %q", name, why)
		}
	}
}

func TestWhatLeadsToAnAlloc(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")
	var got []string
	for _, p := range Order(Publish([]alloc.PortMapping{
		{Value: 8080, To: 80, HostIP: "192.0.2.1"},
		{Value: 9090, HostIP: "192.0.2.1", HostNetwork: "lan"},
		{Value: 7070, HostIP: "127.0.0.1"},
		{Value: 6060, HostIP: "2001:db8::1"},
		{Value: 5050, HostIP: ""},
	}, v4, v6)) {
		got = append(got, netip.AddrPortFrom(p.Host, p.Port).String()+" "+netip.AddrPortFrom(p.To, p.ToPort).String())
	}
	want := []string{"127.0.0.1:6060 10.0.0.2:6060", "127.0.0.1:7070 10.0.0.2:7070", "127.0.0.1:8080 10.0.0.2:80",
		"192.0.2.1:8080 10.0.0.2:80",
		"192.0.2.1:9090 10.0.0.2:9090", "[2001:db8::1]:6060 [fd00::2]:6060"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if none := Publish([]alloc.PortMapping{
		{Value: 1, HostIP: "2001:db8::1", HostNetwork: "six"},
	}, v4, netip.Addr{}); len(none) > 0 {
		t.Errorf("an IPv6 port leads to an alloc without such an address: %v", none)
	}
}

func TestTheDifferenceMakesOneOfTheOther(t *testing.T) {
	at := func(port uint16, to string) Published {
		return Published{Host: loopback, Port: port, To: netip.MustParseAddr(to), ToPort: 80}
	}
	was := []Published{at(1, "10.0.0.1"), at(2, "10.0.0.1"), at(3, "10.0.0.1")}
	is := []Published{at(2, "10.0.0.1"), at(3, "10.0.0.2"), at(4, "10.0.0.2")}
	gone, added := Difference(was, is)
	if !slices.Equal(gone, []Published{was[0], was[2]}) || !slices.Equal(added, []Published{is[1], is[2]}) {
		t.Errorf("gone %v, added %v", gone, added)
	}
}

func TestWhatTasksSeeOfNames(t *testing.T) {
	const stub = "nameserver 127.0.0.53\noptions edns0\nsearch lan\n"
	const upstream = "# by a resolver\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nsearch lan home\n"
	for name, c := range map[string]struct {
		dns         *job.DNS
		nodes       []string
		want        string
		unreachable bool
	}{
		"the node's": {nil, []string{"nameserver 192.0.2.9\nsearch a\n", upstream},
			"nameserver 192.0.2.9\nsearch a\n", false},
		"a resolver on the node's loopback": {nil, []string{stub, upstream},
			"nameserver 192.0.2.1\nnameserver fe80::1%eth0\nsearch lan home\n", false},
		"that alone": {nil, []string{stub}, "search lan\noptions edns0\n", true},
		"servers of its own": {&job.DNS{Servers: []string{"192.0.2.53"}}, []string{stub},
			"nameserver 192.0.2.53\nsearch lan\noptions edns0\n", false},
		"all of its own": {&job.DNS{
			Servers:  []string{"192.0.2.53"},
			Searches: []string{"x"},
			Options:  []string{"ndots:1"},
		},
			[]string{upstream}, "nameserver 192.0.2.53\nsearch x\noptions ndots:1\n", false},
	} {
		got, unreachable := Resolver(c.dns, c.nodes...)
		if got != c.want || unreachable != c.unreachable {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, unreachable, c.want, c.unreachable)
		}
	}
	if hosts := Hosts("web.example"); !strings.Contains(hosts, "127.0.1.1 web.example web\n") {
		t.Errorf("without an address:\n%s", hosts)
	}
	for name, fine := range map[string]bool{"web": true, "web-0.example": true, "": false, "-web": false, "web-": false,
		"a..b": false, "a_b": false, strings.Repeat("a", 64): false, "${NOMAD_ALLOC_ID}": false} {
		if why := BadHostname(name); (why == "") != fine {
			t.Errorf("%q as the name of a host: %q", name, why)
		}
	}
	for _, bad := range []*job.DNS{
		{Servers: []string{"ns.example"}},
		{Servers: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}},
		{Searches: []string{"two words"}},
		{Options: []string{"ndots:2\nnameserver 192.0.2.1"}},
	} {
		if len(BadDNS(bad)) == 0 {
			t.Errorf("%+v is taken", bad)
		}
	}
	fine := &job.DNS{Servers: []string{"192.0.2.1", "fe80::1%eth0"}, Options: []string{"ndots:2"}}
	if bad := BadDNS(fine); len(bad) > 0 {
		t.Errorf("a proper block is refused: %v", bad)
	}
}
