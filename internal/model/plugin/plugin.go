// Package plugin owns the nouns of CSI plugins: the instance (one running alloc of a plugin with a role), what it said
// of itself, and the plugin as the sum of its instances and of what was learnt at its first negotiation.
package plugin

import (
	"maps"
	"strings"
	"time"

	"berth/internal/base/ids"
)

// Role of an instance.
type Role string

// Roles. A monolith is two instances, one of each role.
const (
	RoleNode       Role = "node"
	RoleController Role = "controller"
)

// Scope says which controller instance may serve a volume.
type Scope string

// Scopes.
const (
	ScopeCluster Scope = "cluster"
	ScopeNode    Scope = "node"
)

// Topology is where a volume is or can be reached: every segment must equal the node's. Keys compare without case.
type Topology struct {
	Segments map[string]string
}

// Within reports whether a node with topology n satisfies t: a subset match, keys compared without case.
func (t Topology) Within(n Topology) bool {
	for k, v := range t.Segments {
		if nv, ok := n.get(k); !ok || nv != v {
			return false
		}
	}
	return true
}

// Equal compares segments, keys without case.
func (t Topology) Equal(o Topology) bool {
	return len(t.Segments) == len(o.Segments) && t.Within(o)
}

func (t Topology) get(key string) (string, bool) {
	if v, ok := t.Segments[key]; ok {
		return v, true
	}
	for k, v := range t.Segments {
		if strings.EqualFold(k, key) {
			return v, true
		}
	}
	return "", false
}

// Clone copies a topology.
func (t Topology) Clone() Topology { return Topology{Segments: maps.Clone(t.Segments)} }

// Capabilities as negotiated with one instance. Names follow the CSI spec (the RPC kinds).
type Capabilities struct {
	// Plugin.
	ControllerService bool
	Topology          bool // VOLUME_ACCESSIBILITY_CONSTRAINTS
	ExpandOnline      bool
	ExpandOffline     bool
	// Controller.
	CreateDelete       bool
	Attach             bool // PUBLISH_UNPUBLISH_VOLUME
	AttachReadOnly     bool // PUBLISH_READONLY
	ListVolumes        bool
	ListPublishedNodes bool
	GetCapacity        bool
	CreateSnapshot     bool // CREATE_DELETE_SNAPSHOT
	ListSnapshots      bool
	Clone              bool
	ControllerExpand   bool
	Modify             bool
	// Node.
	Stage            bool
	Stats            bool
	NodeExpand       bool
	VolumeMountGroup bool
	// Either service.
	SingleNodeMultiWriter bool
}

// State of an instance, decided by csimanager/instance.
type State string

// States of an instance.
const (
	Awaiting State = "awaiting"
	Probing  State = "probing"
	Ready    State = "ready"
	Failing  State = "failing"
	Draining State = "draining"
	Closed   State = "closed"
)

// Instance is one running alloc of a plugin in one role, as its node describes it to the servers.
type Instance struct {
	Plugin       ids.Plugin
	Role         Role
	Alloc        ids.Alloc
	Node         ids.Node
	State        State
	Reason       string // why it is not ready
	Provider     string // the name that it has for its provider; another name is another provider
	Version      string
	Scope        Scope
	Capabilities Capabilities
	// StorageNode is the node's id in the provider's eyes; node role only.
	StorageNode string
	MaxVolumes  int64 // 0: the orchestrator decides
	Topology    *Topology
	Updated     time.Time
}

// Healthy reports whether work can be given to it.
func (i *Instance) Healthy() bool { return i.State == Ready }

// Record is what survives a plugin's instances: the facts that decide what "attached" and "reachable" mean for its
// volumes. It is written at the first negotiation and updated by later ones. Unknown means wait, never absent.
type Record struct {
	ID             ids.Plugin
	Provider       string
	Version        string
	Negotiated     bool
	NodeNegotiated bool
	NeedsAttach    bool
	NeedsStage     bool
	Topology       bool
	Scope          Scope
	// DetachFences: a successful ControllerUnpublish proves that the node can no longer write.
	DetachFences bool
	Controller   Capabilities
	NodeCaps     Capabilities
	CreateIndex  uint64
	ModifyIndex  uint64
}
