// Package networks owns what hooks see of the networks of allocs, which networks/keeper makes. Package client and its
// hooks import it.
package networks

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Want is what an alloc asks for.
type Want struct {
	Alloc    ids.Alloc
	Mode     string
	Ports    []alloc.PortMapping
	Hostname string // empty: the node's
	DNS      *job.DNS
	Args     map[string]string // to CNI plugins
	Maker    string            // the driver that makes the namespace itself; empty: none does
}

// Made is an alloc's network.
type Made struct {
	Network driver.Network
	Status  *alloc.NetworkStatus // nil: the node's own
	// Warnings are what a person should hear of it.
	Warnings []string
}

// Networks makes networks of allocs and releases them. Both may be repeated, also by the next run of the agent.
type Networks interface {
	// Make returns when the network is there. An error of kind Exhausted or Conflict says what is in the way; one of
	// kind Denied that a program of the node has a port that is asked for, which is not waited out.
	Make(context.Context, Want) (*Made, error)
	// Release returns nil when nothing is left of it.
	Release(context.Context, ids.Alloc) error
}
