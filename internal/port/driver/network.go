package driver

import (
	"context"

	"berth/internal/base/ids"
)

// NetworkMaker is a Driver that makes the network namespaces of its allocs itself, where its Capabilities say so.
type NetworkMaker interface {
	Driver
	// MakeNetwork makes the namespace of an alloc, or finds the one that is there. It may be repeated.
	MakeNetwork(ctx context.Context, id ids.Alloc, hostname string) (*MadeNetwork, error)
	// EndNetwork ends what MakeNetwork made, or may have made: of a call whose answer was lost n is nil. It may be
	// repeated.
	EndNetwork(ctx context.Context, id ids.Alloc, n *MadeNetwork) error
}

// MadeNetwork is a network namespace that a driver made.
type MadeNetwork struct {
	Path  string // at which the namespace is held
	State []byte `json:",omitempty"` // the driver's own
}

// Network is what a task's network is, where it is not the node's alone.
type Network struct {
	Namespace string   // path at which a network namespace is held; empty: the node's
	Hostname  string   // empty: the node's
	Files     []Mount  // of /etc, for tasks that have a root of their own
	Resolver  Resolver // as the job asks for it; Files have it already
	// By is the driver that made the namespace, and Made what it said of it; empty: the node's agent did.
	By   string
	Made *MadeNetwork
}

// Resolver says how names are resolved; empty: as on the node.
type Resolver struct{ Servers, Searches, Options []string }

// Networks are kinds of network that a driver's tasks can be in.
type Networks struct {
	// Known: the driver says which. Otherwise its tasks can be in all.
	Known bool
	Host  bool // the node's
	Alloc bool // the alloc's namespace
	None  bool // none, which the driver sees to itself
	// Makes: the alloc's namespace has to be made by the driver.
	Makes bool
}
