package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"berth/internal/base/fault"
)

// translated is the prefix in which IPv6 has the addresses of IPv4 (RFC 6052).
var translated = netip.MustParsePrefix("64:ff9b::/96")

// metadata are addresses, beside those of the link, at which clouds tell a machine its secrets: those of AWS and Google
// by IPv6, of Azure, Alibaba, Oracle and Scaleway.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:42::42"),
}

// check refuses an address that is not to be asked.
func (g *Guard) check(at netip.AddrPort) error {
	ip := at.Addr().Unmap().WithZone("")
	if translated.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	here := ip.IsLoopback() || ip.IsUnspecified() || slices.Contains(g.Own, ip)
	if here && slices.Contains(g.Ports, at.Port()) {
		return fault.New(fault.Denied, "", at.String(),
			"it is the agent's own address, which artifacts never come from")
	}
	if slices.ContainsFunc(g.Allowed, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return nil
	}
	var kind string
	switch {
	case ip.IsLoopback():
		kind = "loopback"
	case ip.IsUnspecified() || ip.Is4() && ip.As4()[0] == 0:
		kind = "unspecified"
	case ip.IsLinkLocalUnicast():
		kind = "link-local"
	case ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		kind = "multicast"
	case slices.Contains(metadata, ip):
		kind = "metadata"
	default:
		return nil
	}
	return fault.WithHint(
		fault.New(fault.Denied, "", at.String(), fmt.Sprintf("artifacts come from no %s address", kind)),
		fmt.Sprintf("who runs the node's agent allows it by allow_addresses = [\"%s\"] in the client's artifact block",
			ip))
}

// dialer connects to addresses that the guard lets be asked. It is the address that a name stands for when the
// connection is made that counts, whatever was answered before and whoever has redirected.
func (g *Guard) dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: 30 * time.Second,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fault.Wrap(err, fault.Internal, "read", "the address "+address)
			}
			return g.check(at)
		},
	}
}
