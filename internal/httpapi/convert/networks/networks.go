// Package networks owns the public form of what allocs and nodes have of networks. Packages of httpapi import
// it.
package networks

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Default is the name by which clients know the default address of a node.
const Default = "default"

// HostNetwork is a host network as clients know it.
func HostNetwork(name string) string { return cmp.Or(name, Default) }

// DNS makes the internal form of a dns block.
func DNS(d *api.DNSConfig) *job.DNS {
	if d == nil {
		return nil
	}
	return &job.DNS{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
}

func fromDNS(d *job.DNS) *api.DNSConfig {
	if d == nil {
		return nil
	}
	return &api.DNSConfig{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
}

// Status is the network of an alloc on its node, as clients are used to see it once the node has reported: with empty
// members on the node's own network.
func Status(a *alloc.Alloc) *api.AllocNetworkStatus {
	switch {
	case a.Network != nil:
		return &api.AllocNetworkStatus{
			InterfaceName: a.Network.Interface,
			Address:       a.Network.Address,
			AddressIPv6:   a.Network.IPv6,
			DNS:           fromDNS(a.Network.DNS),
		}
	case a.TaskStates != nil:
		return &api.AllocNetworkStatus{}
	}
	return nil
}

// Allocated fills in the ports of an alloc, and its network as its group asks for it. g is nil where the job is not at
// hand.
func Allocated(out *api.AllocatedSharedResources, a *alloc.Alloc, g *job.TaskGroup) {
	var asked *job.NetworkResource
	if g != nil && len(g.Networks) > 0 {
		asked = g.Networks[0]
	}
	if len(a.Resources.Ports) == 0 && asked == nil {
		return
	}
	net := &api.NetworkResource{}
	static := map[string]bool{}
	if asked != nil {
		if asked.Mode != "host" {
			net.Mode = asked.Mode
		}
		net.Hostname, net.DNS = asked.Hostname, fromDNS(asked.DNS)
		for _, p := range asked.ReservedPorts {
			static[p.Label] = true
		}
	}
	for _, p := range a.Resources.Ports {
		out.Ports = append(out.Ports, api.PortMapping{
			Label:           p.Label,
			Value:           p.Value,
			To:              p.To,
			HostIP:          p.HostIP,
			IgnoreCollision: p.IgnoreCollision,
		})
		net.IP = cmp.Or(net.IP, p.HostIP)
		port := api.Port{
			Label:           p.Label,
			Value:           p.Value,
			To:              p.To,
			HostNetwork:     HostNetwork(p.HostNetwork),
			IgnoreCollision: p.IgnoreCollision,
		}
		if static[p.Label] {
			net.ReservedPorts = append(net.ReservedPorts, port)
		} else {
			net.DynamicPorts = append(net.DynamicPorts, port)
		}
	}
	out.Networks = []*api.NetworkResource{net}
}

// OfNode fills in the addresses that a node offers.
func OfNode(out *api.NodeResources, r *node.Resources) {
	if r.IP != "" {
		out.Networks = []*api.NetworkResource{{Mode: "host", Device: r.Device, IP: r.IP, CIDR: whole(r.IP)}}
		out.NodeNetworks = append(out.NodeNetworks, address(Default, r.Device, r.IP))
	}
	for _, h := range r.HostNetworks {
		out.NodeNetworks = append(out.NodeNetworks, address(h.Name, h.Device, h.Address))
	}
}

func address(name, device, ip string) *api.NodeNetworkResource {
	family := "ipv4"
	if a, err := netip.ParseAddr(ip); err == nil && a.Is6() {
		family = "ipv6"
	}
	return &api.NodeNetworkResource{
		Mode:      "host",
		Device:    device,
		Addresses: []api.NodeNetworkAddress{{Family: family, Alias: name, Address: ip}},
	}
}

// whole is the subnet of one address.
func whole(ip string) string {
	if a, err := netip.ParseAddr(ip); err == nil && a.Is6() {
		return ip + "/128"
	}
	return ip + "/32"
}

// Hosts are the addresses that a node offers by name.
func Hosts(r *node.Resources) map[string]*api.HostNetworkInfo {
	out := map[string]*api.HostNetworkInfo{}
	for _, h := range r.HostNetworks {
		out[h.Name] = &api.HostNetworkInfo{
			Name:          h.Name,
			CIDR:          whole(h.Address),
			Interface:     h.Device,
			ReservedPorts: List(h.ReservedPorts),
		}
	}
	return out
}

// List writes ports with commas between.
func List(ports []int) string {
	var out []string
	for _, p := range slices.Sorted(slices.Values(ports)) {
		out = append(out, strconv.Itoa(p))
	}
	return strings.Join(out, ",")
}
