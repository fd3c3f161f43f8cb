package fingerprint

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/model/node"
)

// HostNetwork picks an address of the node, beside the default one, that jobs use by name.
type HostNetwork struct {
	Name          string
	Interface     string       // empty: any
	Within        netip.Prefix // not valid: any
	ReservedPorts []int
}

// hostNetworks offers what is there of them: one without an address is a problem, and the node goes on without it.
func hostNetworks(f *Found, wanted []HostNetwork) error {
	if len(wanted) == 0 {
		return nil
	}
	links, err := net.Interfaces()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "list", "network interfaces")
	}
	var errs []error
	for _, w := range wanted {
		device, addr := w.find(links)
		if !addr.IsValid() {
			errs = append(errs, fault.New(fault.NotFound, "offer", fmt.Sprintf("host_network %q", w.Name),
				"no link of the node has an address that it asks for"))
			continue
		}
		f.Resources.HostNetworks = append(f.Resources.HostNetworks, node.HostNetwork{
			Name:          w.Name,
			Device:        device,
			Address:       addr.String(),
			ReservedPorts: w.ReservedPorts,
		})
	}
	slices.SortFunc(f.Resources.HostNetworks, func(a, b node.HostNetwork) int { return cmp.Compare(a.Name, b.Name) })
	return errors.Join(errs...)
}

// find returns the first address that is asked for.
func (w *HostNetwork) find(links []net.Interface) (device string, addr netip.Addr) {
	for _, l := range links {
		if w.Interface != "" && l.Name != w.Interface {
			continue
		}
		addrs, err := l.Addrs()
		if err != nil {
			continue // the link has gone
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			ip, ok := netip.AddrFromSlice(n.IP)
			if ip = ip.Unmap(); ok && !ip.IsLinkLocalUnicast() && (!w.Within.IsValid() || w.Within.Contains(ip)) {
				return l.Name, ip
			}
		}
	}
	return "", netip.Addr{}
}
