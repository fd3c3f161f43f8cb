package bridge_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"berth/internal/model/alloc"
	"berth/internal/model/network"
	"berth/internal/testkit/await"
)

const nodeIPv6, otherIPv6 = "2001:db8::1", "2001:db8::2"

// ipv6 gives the node and the other machine addresses of IPv6, too.
func (r *rig) ipv6() {
	r.t.Helper()
	up := func(own, gateway string) error {
		link, err := netlink.LinkByName("uplink")
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(own + "/64")
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD // it is used at once
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{
			LinkIndex: link.Attrs().Index,
			Gw:        net.ParseIP(gateway),
			Dst:       &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
		})
	}
	must(r.t, up(nodeIPv6, otherIPv6))
	must(r.t, r.within(r.other, func() error { return up(otherIPv6, nodeIPv6) }))
}

// linkLocal is the address that a link gives itself, as soon as it is there.
func (r *rig) linkLocal(name string) (out netlink.Addr) {
	r.t.Helper()
	link, err := netlink.LinkByName(name)
	must(r.t, err)
	await.Eventually(r.t, "a link-local address of "+name, func() bool {
		all, err := netlink.AddrList(link, netlink.FAMILY_V6)
		must(r.t, err)
		at := slices.IndexFunc(all, func(a netlink.Addr) bool { return a.IP.IsLinkLocalUnicast() })
		if at >= 0 {
			out = all[at]
		}
		return at >= 0
	})
	return out
}

// TestPortsLeadToAllocsByIPv6: given ports at an address of IPv6, then they lead to their alloc from another machine,
// from the node and from another alloc; the alloc's own address does not from elsewhere, and what it sends itself comes
// from the node.
func TestPortsLeadToAllocsByIPv6(t *testing.T) {
	r := newRig(t)
	r.ipv6()
	must(t, r.b.Ensure())
	must(t, r.b.Apply(network.Publish(
		[]alloc.PortMapping{{Value: 8080, To: 80, HostIP: nodeIPv6, HostNetwork: "six"}},
		netip.MustParseAddr("172.26.64.10"), netip.MustParseAddr("fd00:be::10"))))
	web := r.alloc("web", "172.26.64.10", "fd00:be::10")
	peer := r.alloc("peer", "172.26.64.11", "fd00:be::11")
	if a := r.linkLocal("berth"); a.Flags&unix.IFA_F_TENTATIVE != 0 {
		t.Errorf("%s of the bridge cannot be used yet: nobody is asked in its name which alloc is meant", a.IP)
	}
	r.serve(web.Namespace, ":80")
	at := "[" + nodeIPv6 + "]:8080"
	for name, c := range map[string]struct{ from, sees string }{
		"another machine": {r.other, otherIPv6},
		"the node":        {self, nodeIPv6},
		"another alloc":   {peer.Namespace, "fd00:be::1"},
		"itself":          {web.Namespace, "fd00:be::1"},
	} {
		if got, err := r.call(c.from, at); err != nil || got != c.sees {
			t.Errorf("%s: the alloc sees %q, %v; want %q", name, got, err, c.sees)
		}
	}
	if got, err := r.call(r.other, "[fd00:be::10]:80"); err == nil {
		t.Errorf("another machine reaches an alloc past its ports: %q", got)
	}
	r.serve(r.other, ":7000")
	if got, err := r.call(web.Namespace, "["+otherIPv6+"]:7000"); err != nil || got != nodeIPv6 {
		t.Errorf("another machine sees %q, %v", got, err)
	}
	must(t, r.b.Update(network.Publish(
		[]alloc.PortMapping{{Value: 8080, To: 80, HostIP: nodeIPv6, HostNetwork: "six"}},
		netip.Addr{}, netip.MustParseAddr("fd00:be::10")), nil))
	if got, err := r.call(r.other, at); err == nil {
		t.Errorf("a port that is gone leads there: %q", got)
	}
}
