package spec

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
)

// network says in which network the container is: its alloc's, if that has one of its own; otherwise what the job says.
func (p *Policy) network(cfg *driver.TaskConfig, o Options, c *dockerapi.Create) error {
	h := c.HostConfig
	mode := o.Text("network_mode")
	if cfg.Network != nil && cfg.Network.Namespace != "" {
		return inAllocs(o, c, mode)
	}
	if mode == "" {
		mode = "default"
	}
	h.NetworkMode = mode
	h.DNS, h.DNSSearch = o.Texts("dns_servers"), o.Texts("dns_search_domains")
	h.DNSOptions = o.Texts("dns_options")
	if c.Hostname == "" && cfg.Network != nil && mode != host && !strings.HasPrefix(mode, "container:") {
		c.Hostname = cfg.Network.Hostname
	}
	if len(o.Texts("network_aliases")) > 0 || o.Text("ipv4_address") != "" || o.Text("ipv6_address") != "" {
		e := &dockerapi.Endpoint{Aliases: o.Texts("network_aliases")}
		if o.Text("ipv4_address") != "" || o.Text("ipv6_address") != "" {
			e.IPAMConfig = &dockerapi.IPAM{IPv4Address: o.Text("ipv4_address"), IPv6Address: o.Text("ipv6_address")}
		}
		c.NetworkingConfig = &dockerapi.Networking{EndpointsConfig: map[string]*dockerapi.Endpoint{mode: e}}
	}
	return publish(cfg, o, c, mode)
}

// inAllocs: nothing of the container's own network can be asked for, because it has none.
func inAllocs(o Options, c *dockerapi.Create, mode string) error {
	if mode != "" && mode != "bridge" && mode != "default" {
		return fault.WithHint(fault.New(fault.Invalid, "", "config.network_mode",
			"the group has a network of its own, in which its tasks are"),
			"leave network_mode out, or the group's network")
	}
	for _, name := range []string{"ports", "dns_servers", "dns_search_domains", "dns_options", "extra_hosts",
		"network_aliases", "ipv4_address", "ipv6_address", "mac_address", "hostname"} {
		if _, set := o[name]; set {
			return fault.WithHint(fault.New(fault.Invalid, "", "config."+name,
				"the group has a network of its own, in which its tasks are"), "write it in the group's network block")
		}
	}
	c.HostConfig.ExtraHosts = nil
	return nil
}

// publish has the daemon give ports of the node to the container.
func publish(cfg *driver.TaskConfig, o Options, c *dockerapi.Create, mode string) error {
	labels := o.Texts("ports")
	if len(labels) > 0 && (mode == host || mode == "none") {
		if mode == host {
			return nil // it is at the node's ports
		}
		return fault.WithHint(fault.New(fault.Invalid, "", "config.ports", "the container has no network"),
			"leave network_mode or ports out")
	}
	for _, label := range labels {
		i := slices.IndexFunc(cfg.Ports, func(p driver.Port) bool { return p.Label == label })
		if i < 0 {
			return fault.WithHint(fault.New(fault.Invalid, "", "config.ports", "the group has no port "+
				strconv.Quote(label)), "add it to the group's network block")
		}
		p := cfg.Ports[i]
		to := p.To
		if to <= 0 {
			to = p.Value
		}
		if c.HostConfig.PortBindings == nil {
			c.HostConfig.PortBindings = map[string][]dockerapi.Binding{}
			c.ExposedPorts = map[string]struct{}{}
		}
		for _, protocol := range []string{"tcp", "udp"} {
			inside := strconv.Itoa(to) + "/" + protocol
			c.ExposedPorts[inside] = struct{}{}
			ip := p.HostIP
			if net.ParseIP(ip) == nil {
				ip = ""
			}
			c.HostConfig.PortBindings[inside] = append(c.HostConfig.PortBindings[inside],
				dockerapi.Binding{HostIP: ip, HostPort: strconv.Itoa(p.Value)})
		}
	}
	return nil
}
