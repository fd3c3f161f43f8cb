// Package network owns what is decided about the networks of allocs without looking at a kernel: which address an alloc
// gets, what its link and the node's table are called, which ports of the node lead to it, and what its files of /etc
// say. port/bridge makes it so, and client/networks records it before.
package network

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/base/pattern"
)

// Modes of a group's network.
const (
	ModeHost   = "host"
	ModeBridge = "bridge"
	ModeNone   = "none"
)

// cniPrefix begins the modes that are networks of CNI plugins.
const cniPrefix = "cni/"

// CNI is the name of the network of CNI plugins that a mode asks for; false: it asks for none.
func CNI(mode string) (name string, is bool) { return strings.CutPrefix(mode, cniPrefix) }

// ModeCNI is the mode of a network of CNI plugins.
func ModeCNI(name string) string { return cniPrefix + name }

// cniName is what a network of CNI plugins may be called (CNI specification, network configuration).
var cniName = pattern.Of(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}$`)

// BadMode says what is wrong with a mode; empty: nothing.
func BadMode(mode string) string {
	name, is := CNI(mode)
	switch {
	case mode == "" || mode == ModeHost || mode == ModeBridge || mode == ModeNone:
		return ""
	case is && cniName().MatchString(name):
		return ""
	case is:
		return fmt.Sprintf("mode %.60q names no network: write letters, digits, _, . and - behind cni/", mode)
	}
	return fmt.Sprintf("mode %.60q is none; there are host, bridge, none, and cni/NAME for a network of CNI plugins",
		mode)
}

// BadCNI says what is wrong with arguments to CNI plugins; empty: nothing.
func BadCNI(mode string, args map[string]string) string {
	if _, is := CNI(mode); !is {
		return "cni is of networks of mode cni/NAME; remove the block, or write that mode"
	}
	for _, k := range slices.Sorted(maps.Keys(args)) {
		if k == "" || strings.ContainsAny(k, "=;\x00") || strings.ContainsAny(args[k], ";\x00") {
			return fmt.Sprintf("cni args: %.60q: neither name nor value may have ; in it, nor the name =", k)
		}
	}
	return ""
}

// Defaults of what an agent's configuration may say of the bridge.
const (
	DefaultBridge = "berth"
	DefaultSubnet = "172.26.64.0/20"
)

// Interface is the link of an alloc in its own network namespace.
const Interface = "eth0"

// Schema is the number of the cluster from which on jobs may ask for more than the node's own network: a server before
// it would not know what their records and the reports of their nodes say of it.
const Schema = 11

// Attributes of nodes. AttributeBridge is there on nodes that can make networks of allocs: "1" in mode bridge.
const (
	AttributeBridge    = "network.bridge"
	AttributeBridgeWhy = "network.bridge.problem" // why it cannot, in words
	AttributeNone      = "network.none"
	AttributeSubnet    = "network.bridge.subnet"
	AttributeSubnet6   = "network.bridge.subnet_ipv6"
	AttributeCNI       = "network.cni."         // and the name of a network: "1", it is configured
	AttributePlugin    = "plugins.cni.version." // and the name of a CNI plugin: its release
)

// maxLink is how long the name of a link may be, in bytes (IFNAMSIZ, without the final NUL).
const maxLink = 15

// linkPrefix begins the names of all links that Berth makes for allocs on the node's side.
const linkPrefix = "berth"

// Link is the name of an alloc's link on the node.
func Link(id ids.Alloc) string {
	sum := sha256.Sum256([]byte(id))
	return linkPrefix + hex.EncodeToString(sum[:])[:maxLink-len(linkPrefix)]
}

// IsLink reports whether a link's name has the form of those of allocs.
func IsLink(name string) bool {
	digits, ours := strings.CutPrefix(name, linkPrefix)
	return ours && len(name) == maxLink && strings.Trim(digits, "0123456789abcdef") == ""
}

// Table is the name of the nftables table that goes with a bridge.
func Table(bridge string) string {
	if bridge == DefaultBridge {
		return DefaultBridge
	}
	return DefaultBridge + "-" + bridge
}

// ValidBridge tells what is wrong with the name of a bridge; empty: nothing.
func ValidBridge(name string) string {
	switch {
	case name == "" || len(name) > maxLink:
		return "the name of a link has 1 to 15 bytes"
	case name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n*?[\"\\%"):
		return "the kernel takes no such name for a link"
	case IsLink(name):
		return "links of allocations have names of this form"
	}
	return ""
}

// MAC is the hardware address that goes with an address of the bridge's subnet. It is the same for whoever has the
// address next, so that no neighbour remembers a wrong one.
func MAC(a netip.Addr) net.HardwareAddr {
	b := a.As16()
	return net.HardwareAddr{0x02, 0xbf, b[12], b[13], b[14], b[15]}
}
