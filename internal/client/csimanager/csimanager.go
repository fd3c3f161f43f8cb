// Package csimanager is the contract for the life of CSI volumes on a node: what alloc hooks ask for and what the node
// keeper needs from the client. The engines live below it: node (stagings and publications), instance (plugin
// connections), controller (controller calls). Hooks see this package, never an engine.
package csimanager

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
)

// VolumeMounter stages and publishes volumes for allocs.
type VolumeMounter interface {
	// MountVolume records the want durably and waits until the volume is published and verified. Ending ctx ends the
	// wait, not the want. NotReady and every retryable cause are waited out inside; an error is final for this want
	// (fault.Invalid, Unsupported, Denied…: the plugin refused permanently) or the end of ctx.
	MountVolume(ctx context.Context, req MountRequest) (MountInfo, error)
	// UnmountVolume withdraws the want and waits until the node has released the publication (and the staging when
	// nobody else uses it). Withdrawing what was never wanted is no error. The caller has made sure that no process of
	// the alloc is left; the keeper asks its ProcessGate all the same.
	UnmountVolume(ctx context.Context, key volume.PublicationKey) error
	// Publications lists what the node knows of an alloc, wanted or left over, so that an alloc is cleaned up even
	// when its hook never ran in this agent run.
	Publications(alloc ids.Alloc) []volume.PublicationKey
	// Released says that an alloc which was given volumes has released them, or never began: that is reported even when
	// the node never held anything, for the servers' claims wait for the report.
	Released(alloc ids.Alloc)
	// Mounted verifies one publication in the mount table right now; a task starts only after it. again: a task that
	// used it has ended, so its file system is asked, too, whether it still takes what a task wants of it. If it does
	// not, the alloc's tasks that use the volume restart on the volume mounted anew, and until then this is
	// fault.NotReady.
	Mounted(ctx context.Context, key volume.PublicationKey, again bool) error
}

// MountRequest is an alloc's want, with the permission that the servers gave for it: all that is needed to stage and
// publish one volume for one alloc.
type MountRequest struct {
	Alias          string
	Volume         volume.ID
	Key            volume.PublicationKey
	Epoch          volume.Epoch
	Generation     uint64 // of the attachment; 0 when the plugin does not attach
	AccessMode     volume.AccessMode
	AttachmentMode volume.AttachmentMode
	MountOptions   *volume.MountOptions
	ReadOnly       bool
	VolumeContext  map[string]string
	PublishContext map[string]string
	Secrets        redact.Map
	// Capacity is the size the volume should have; ExpandNode asks for NodeExpandVolume after staging.
	Capacity   int64
	ExpandNode bool
	// Ownership is whom the volume shall belong to; nil: a fresh one to the first task's user. Shared: an alloc of
	// another node may use it, so that its owner stays.
	Ownership *volume.Ownership
	Shared    bool
	// MountGroup is the group that the plugin gives the volume to; empty: none, and the node does.
	MountGroup string
	// Provider has the volume; empty: the servers do not know.
	Provider string
	// Received is where the servers' state was when they gave the permission.
	Received lineage.Point
	// Progress is called, when not nil, whenever what is waited for may have changed, and now and then while it lasts,
	// with one sentence for people. underWay: it is a call that was made, or is about to be, and nothing stands in the
	// way.
	Progress func(reason string, underWay bool)
}

// Grants is what the servers say about the mounts of an alloc: all of them, or what they wait for.
type Grants struct {
	Ready   bool
	Mounts  []MountRequest
	Waiting []WaitReason
	Token   string // of this answer
}

// WaitReason says what a volume of an alloc waits for.
type WaitReason struct {
	Volume   volume.ID
	Reason   string
	UnderWay bool // a call that was made, or is about to be, and nothing stands in the way
}

// News says how much it matters that the servers hear of what is new on the node.
type News uint8

// The kinds of news, in the order of their urgency.
const (
	NoNews   News = iota
	UnderWay      // steps that go well: the report of the alloc that waits for them tells of it
	Standing      // what stands in the way of a volume, or the end of a use that no alloc reports
	Pressing      // somebody waits for the report
)

// MountInfo is a verified publication, handed to task hooks.
type MountInfo struct {
	Alias    string
	Volume   volume.ID
	Key      volume.PublicationKey
	Source   string // host path: a mount point, or a block device node
	Block    bool
	ReadOnly bool
}

// PublishedVolume is a volume that allocs of this node use, with the alias that each has for it.
type PublishedVolume struct {
	Key    volume.StagingKey
	Volume volume.ID
	Users  map[ids.Alloc]string
}

// ProcessGate says whether the processes of an alloc are proven gone. Unknown is not gone.
type ProcessGate interface {
	// ProcessesGone reports the proof, or in words what is still there.
	ProcessesGone(alloc ids.Alloc) (gone bool, why string)
	// ProcessesIdle reports that no process of the alloc lives now, and that none starts before its volumes are mounted
	// again. It lets a lost publication be remade under an alloc that goes on.
	ProcessesIdle(alloc ids.Alloc) bool
	// Changed returns a channel that is closed at the next change of any alloc's answer.
	Changed() <-chan struct{}
}

// Allocs is what the node keeper has to know of the node's allocs, and tells them.
type Allocs interface {
	// Known reports whether the client runs, restores or still has to clean up the alloc. A want of an unknown alloc is
	// withdrawn once the node is armed.
	Known(alloc ids.Alloc) bool
	// Orphaned reports that no servers decide about this alloc, so that no permission of theirs takes it into account.
	Orphaned(alloc ids.Alloc) bool
	// VolumeLost says that a publication under a living alloc is dead: the tasks that use the volume of this alias must
	// restart by their policy. It does not wait, nor call the keeper.
	VolumeLost(alloc ids.Alloc, alias, reason string)
}

// ArmedGate says whether this node may undo things: it has received, since it registered with this state of the
// servers, a set of its allocs at an index at least the highest it ever persisted.
type ArmedGate interface {
	Armed() bool
	Changed() <-chan struct{}
}
