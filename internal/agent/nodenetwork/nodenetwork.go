// Package nodenetwork owns what an agent's configuration says of its node's networks: the addresses that it offers for
// ports, and the bridge of its allocs. Only package agent imports it.
package nodenetwork

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/client/fingerprint"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
	"berth/internal/port/cni"
)

// HostNetwork is an address of the node beside its default one, by a name that jobs use.
type HostNetwork struct {
	Name          string `hcl:"name,label"`
	CIDR          string `hcl:"cidr"`           // the address is the node's first within it
	Interface     string `hcl:"interface"`      // and of this link
	ReservedPorts string `hcl:"reserved_ports"` // that are not given out there
}

// Settings are those of the block client.
type Settings struct {
	Bridge, Subnet, Subnet6 string // empty: the default; of Subnet6: none
	Hairpin                 bool
	Hosts                   []*HostNetwork
	// CNIPath and CNIDir are where CNI plugins and their configurations are; empty: the default.
	CNIPath, CNIDir string
}

// Plugins are the CNI plugins that the settings describe.
func (s Settings) Plugins() cni.Plugins {
	return cni.Plugins{
		Path: filepath.SplitList(cmp.Or(s.CNIPath, cni.DefaultPath)),
		Dir:  cmp.Or(s.CNIDir, cni.DefaultDir),
	}
}

// Check refuses what cannot work.
func (s Settings) Check(ports func(string) ([]int, error)) error {
	var errs []error
	if _, err := s.Of(); err != nil {
		errs = append(errs, err)
	}
	_, err := s.Addresses(ports)
	return errors.Join(append(errs, err)...)
}

// Of is the bridge that the settings describe.
func (s Settings) Of() (bridge.Bridge, error) {
	out := bridge.Bridge{Name: network.DefaultBridge, Hairpin: s.Hairpin}
	subnet := network.DefaultSubnet
	var errs []error
	if s.Bridge != "" {
		out.Name = s.Bridge
		if why := network.ValidBridge(s.Bridge); why != "" {
			errs = append(errs, bad("bridge_network_name "+s.Bridge, why, "leave it out for "+network.DefaultBridge))
		}
	}
	if s.Subnet != "" {
		subnet = s.Subnet
	}
	var err error
	if out.IPv4, err = network.ParsePool(subnet, false); err != nil {
		errs = append(errs, fault.Note(err, "client bridge_network_subnet", ""))
	}
	if s.Subnet6 != "" {
		if out.IPv6, err = network.ParsePool(s.Subnet6, true); err != nil {
			errs = append(errs, fault.Note(err, "client bridge_network_subnet_ipv6", ""))
		}
	}
	return out, errors.Join(errs...)
}

func bad(what, why, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "", "client "+what, why), hint)
}

// Addresses are those that the node offers by name. ports reads a list of ports.
func (s Settings) Addresses(ports func(string) ([]int, error)) (out []fingerprint.HostNetwork, err error) {
	var errs []error
	for _, h := range s.Hosts {
		what := fmt.Sprintf("host_network %q", h.Name)
		n := fingerprint.HostNetwork{Name: h.Name, Interface: h.Interface}
		switch {
		case h.Name == "" || h.Name == "default":
			errs = append(errs, bad(what, "the name stands for the node's default address", "give it another name"))
		case h.CIDR == "" && h.Interface == "":
			errs = append(errs, bad(what, "it names neither a link nor a subnet", "write interface, cidr or both"))
		}
		if h.CIDR != "" {
			if n.Within, err = netip.ParsePrefix(h.CIDR); err != nil {
				errs = append(errs, bad(what+" cidr "+h.CIDR, "it is no subnet", `write it as "192.0.2.0/24"`))
			}
		}
		if n.ReservedPorts, err = ports(h.ReservedPorts); err != nil {
			errs = append(errs, fault.Note(err, "client "+what, ""))
		}
		out = append(out, n)
	}
	return slices.Clip(out), errors.Join(errs...)
}
