package network

import (
	"cmp"
	"net/netip"
	"slices"

	"berth/internal/model/alloc"
)

// Published is a port of the node that leads to one of an alloc, for TCP and UDP.
type Published struct {
	Host   netip.Addr // of the node
	Port   uint16
	To     netip.Addr
	ToPort uint16
}

// Publish lists what leads to an alloc with these addresses. Ports of the node's default network are reached by its own
// programs at 127.0.0.1 too.
func Publish(ports []alloc.PortMapping, v4, v6 netip.Addr) []Published {
	var out []Published
	for _, p := range ports {
		host, err := netip.ParseAddr(p.HostIP)
		if err != nil || p.Value <= 0 {
			continue // it has no address on the node
		}
		to := p.To
		if to <= 0 {
			to = p.Value
		}
		hosts := []netip.Addr{host.Unmap()}
		if p.HostNetwork == "" && !host.IsLoopback() {
			hosts = append(hosts, loopback)
		}
		for _, h := range hosts {
			inside := v4
			if h.Is6() {
				inside = v6
			}
			if inside.IsValid() {
				out = append(out, Published{Host: h, Port: uint16(p.Value), To: inside, ToPort: uint16(to)})
			}
		}
	}
	return out
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Order sorts what leads to allocs, and leaves one of each port of the node: the first by its target.
func Order(all []Published) []Published {
	slices.SortFunc(all, func(a, b Published) int {
		return cmp.Or(a.Host.Compare(b.Host), cmp.Compare(a.Port, b.Port), a.To.Compare(b.To),
			cmp.Compare(a.ToPort, b.ToPort))
	})
	return slices.CompactFunc(all, func(a, b Published) bool { return a.Host == b.Host && a.Port == b.Port })
}

// Difference is what has to be taken from what was published, and added to it, to become what is to be.
func Difference(was, is []Published) (gone, added []Published) {
	before, after := map[Published]bool{}, map[Published]bool{}
	for _, p := range was {
		before[p] = true
	}
	for _, p := range is {
		if after[p] = true; !before[p] {
			added = append(added, p)
		}
	}
	for _, p := range was {
		if !after[p] {
			gone = append(gone, p)
		}
	}
	return gone, added
}
