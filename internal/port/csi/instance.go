package csi

import (
	"slices"
	"strconv"
	"strings"
)

// Roles are the services that one plugin instance is run for.
type Roles uint8

// The roles; both together are a monolith.
const (
	RoleController Roles = 1 << iota
	RoleNode
	RoleMonolith = RoleController | RoleNode
)

// Has reports whether all of want are among the roles.
func (r Roles) Has(want Roles) bool { return r&want == want }

func (r Roles) String() string {
	switch r {
	case RoleController:
		return "controller"
	case RoleNode:
		return "node"
	case RoleMonolith:
		return "monolith"
	}
	return "none"
}

// Readiness is a healthy plugin's answer to a probe.
type Readiness uint8

// The two healthy answers; an unhealthy plugin is an error of Probe.
const (
	Initialising Readiness = iota
	Ready
)

func (r Readiness) String() string {
	if r == Ready {
		return "ready"
	}
	return "initialising"
}

// Caps is an ascending set of capabilities. Numbers that this build does not know are kept and shown.
type Caps[T ~int32] []T

// Has reports whether c was advertised.
func (s Caps[T]) Has(c T) bool { return slices.Contains(s, c) }

// Instance is what one run of a plugin process said at negotiation. It is a value: nobody changes it later.
type Instance struct {
	Name          string // of the provider, never an identity
	VendorVersion string
	Manifest      map[string]string
	Roles         Roles

	Plugin     Caps[PluginCap]
	Expansion  Caps[ExpansionCap]
	Controller Caps[ControllerCap]
	Node       Caps[NodeCap]

	NodeID     string // the storage node id; empty without the node role, or where the plugin has none
	MaxVolumes int64  // how many volumes may be attached to the node, 0: the plugin sets no bound
	Topology   Topology
}

// NeedsAttach reports whether volumes must be attached before a node can use them. It means something only for an
// instance with the controller role.
func (i Instance) NeedsAttach() bool { return i.Controller.Has(CapAttach) }

// Stages reports whether volumes must be staged before they are published.
func (i Instance) Stages() bool { return i.Node.Has(CapStage) }

// TopologyAware reports whether volumes of the plugin may be unreachable from some nodes.
func (i Instance) TopologyAware() bool { return i.Plugin.Has(CapAccessibility) }

// capName spells a capability as the specification does, or by number when it is unknown here.
func capName(names map[int32]string, n int32) string {
	if s, ok := names[n]; ok {
		return s
	}
	return "CAPABILITY_" + strconv.Itoa(int(n))
}

func (c PluginCap) String() string     { return capName(pluginCapNames, int32(c)) }
func (c ExpansionCap) String() string  { return capName(expansionCapNames, int32(c)) }
func (c ControllerCap) String() string { return capName(controllerCapNames, int32(c)) }
func (c NodeCap) String() string       { return capName(nodeCapNames, int32(c)) }

func (s Caps[T]) String() string {
	names := make([]string, 0, len(s))
	for _, c := range s {
		switch v := any(c).(type) {
		case interface{ String() string }:
			names = append(names, v.String())
		default:
			names = append(names, strconv.Itoa(int(c)))
		}
	}
	return strings.Join(names, ",")
}
