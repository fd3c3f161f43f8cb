// Package csimanager is the contract for the life of CSI volumes on a node: what alloc hooks ask for and what the node
// keeper needs from the client. The engines live below it: node (stagings and publications), instance (plugin
// connections), controller (controller work). Hooks see this package, never an engine.
package csimanager

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/client/dynamicplugins"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/wire"
)

// VolumeMounter stages and publishes volumes for allocs.
type VolumeMounter interface {
	// MountVolume records the want durably and waits until the volume is published and verified. Ending ctx ends the
	// wait, not the want. NotReady and every retryable cause are waited out inside; an error is final for this want
	// (fault.Invalid, Unsupported, Denied…: the plugin said no for good) or the end of ctx.
	MountVolume(ctx context.Context, req MountRequest) (MountInfo, error)
	// UnmountVolume withdraws the want and waits until the node has let go of the publication (and of the staging when
	// nobody else uses it). Withdrawing what was never wanted is no error. The caller has made sure that no process of
	// the alloc is left; the keeper asks its ProcessGate all the same.
	UnmountVolume(ctx context.Context, key volume.PublicationKey) error
	// Publications lists what the node knows of an alloc, wanted or left over, so that an alloc is cleaned up even
	// when its hook never ran in this life of the agent.
	Publications(alloc ids.Alloc) []volume.PublicationKey
	// Released says that an alloc which was given volumes has let go of them, or never began: the servers are told even
	// when the node never held anything, for their claims wait for its word.
	Released(alloc ids.Alloc)
	// Mounted verifies one publication in the mount table right now; a task starts only after it.
	Mounted(key volume.PublicationKey) error
}

// MountRequest is an alloc's want, with the permission that the servers gave for it.
type MountRequest struct {
	Grant wire.Grant
	// Progress is called, when not nil, whenever what is waited for changes, with one sentence for people.
	Progress func(reason string)
}

// MountInfo is a verified publication, handed to task hooks.
type MountInfo struct {
	Alias    string
	Volume   volume.ID
	Key      volume.PublicationKey
	Source   string // host path: a mount point, or a block device node
	Block    bool
	ReadOnly bool
}

// ProcessGate says whether the processes of an alloc are proven gone. Unknown is not gone.
type ProcessGate interface {
	// ProcessesGone reports the proof, or in words what is still there.
	ProcessesGone(alloc ids.Alloc) (gone bool, why string)
	// Changed returns a channel that is closed at the next change of any alloc's answer.
	Changed() <-chan struct{}
}

// IdleGate is what a ProcessGate may offer beyond: no process of the alloc lives now, and none starts before its volumes
// are mounted again. It lets a lost publication be remade under an alloc that goes on.
type IdleGate interface {
	ProcessesIdle(alloc ids.Alloc) bool
}

// ArmedGate says whether this node may undo things: it has received, in this session with the servers, a set of its
// allocs at an index at least the highest it ever persisted.
type ArmedGate interface {
	Armed() bool
	Changed() <-chan struct{}
}

// Instances gives the keeper and the controller side connections to plugins; csimanager/instance implements it.
type Instances interface {
	// States lists every known instance, for the node's registration.
	States() []*plugin.Instance
	// Changed is closed at the next change of any instance.
	Changed() <-chan struct{}
}

// Connection is a lease on one ready plugin instance. Release it when the call has ended; a draining instance closes
// when its last lease is released.
type Connection struct {
	Client  *csi.Client
	Facts   csi.Instance
	Info    dynamicplugins.Info
	Release func()
}

// Plugins gives connections to ready instances.
type Plugins interface {
	// Use returns a connection to the current instance of a plugin in a role, or fault.NotReady saying what it does.
	Use(id ids.Plugin, role plugin.Role) (*Connection, error)
	// Changed is closed at the next change of any instance. Take it before Use.
	Changed() <-chan struct{}
}

// InventorySink takes the node keeper's reports; the client's session with the servers implements it.
type InventorySink interface {
	// SendInventory delivers a report and returns the acknowledgement.
	SendInventory(ctx context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error)
}
