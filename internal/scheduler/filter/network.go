package filter

import (
	"cmp"
	"fmt"
	"slices"

	"berth/internal/model/job"
	"berth/internal/model/network"
	"berth/internal/model/node"
)

// Networks passes nodes that can make the network of a group, and have an address for each of its ports.
type Networks struct {
	mode  string
	ports []job.Port
}

// Prepare implements Filter.
func (f *Networks) Prepare(r *Request) bool {
	*f = Networks{}
	for _, n := range r.Group.Networks {
		f.mode = n.Mode
		f.ports = slices.Concat(n.ReservedPorts, n.DynamicPorts)
	}
	return len(f.ports) > 0 || f.needs() != ""
}

// needs is the attribute of nodes that can make networks of the mode; empty: all can.
func (f *Networks) needs() string {
	switch f.mode {
	case network.ModeBridge:
		return network.AttributeBridge
	case network.ModeNone:
		return network.AttributeNone
	}
	if name, is := network.CNI(f.mode); is {
		return network.AttributeCNI + name
	}
	return ""
}

// Check implements Filter.
func (f *Networks) Check(n *node.Node) string {
	if needs := f.needs(); needs != "" && n.Attributes[needs] == "" {
		return "missing network"
	}
	for _, p := range f.ports {
		switch {
		case p.HostNetwork != "":
			if n.Resources.HostNetwork(p.HostNetwork) == nil {
				return fmt.Sprintf("missing host network %q for port %q", p.HostNetwork, p.Label)
			}
		case n.Resources.IP == "":
			return "missing network"
		}
	}
	return ""
}

// Explain implements Filter.
func (f *Networks) Explain(n *node.Node) (string, string) {
	needs := f.needs()
	if name, is := network.CNI(f.mode); is && n.Attributes[needs] == "" {
		return fmt.Sprintf("the node has no network %q of CNI plugins", name),
			"write its configuration into the agent's cni_config_dir, run the agent as root, and restart it"
	}
	if needs != "" && n.Attributes[needs] == "" {
		return fmt.Sprintf("the node makes no network of mode %q: %s", f.mode,
				cmp.Or(n.Attributes[network.AttributeBridgeWhy],
					"its agent is older than those, or does not run as root")),
			"run its agent as root on a kernel with nftables, or use mode host"
	}
	for _, p := range f.ports {
		if p.HostNetwork != "" && n.Resources.HostNetwork(p.HostNetwork) == nil {
			return fmt.Sprintf("the node has no host network %q, which port %q asks for", p.HostNetwork, p.Label),
				fmt.Sprintf("write host_network %q in the client block of its configuration", p.HostNetwork)
		}
	}
	return "the node has no address for ports", "set client.network_interface in its configuration"
}
