// Package csi owns the conversation with CSI plugins (specification 1.13.0, every RPC that is not alpha): one
// connection per life of a plugin process, the negotiation of what that process offers, the building of every request
// from one record, the checking of every answer, and the meaning of every error. No CSI protobuf type leaves it.
// Server and client may import it; nothing beneath floor F3 does.
//
// A Client is bound to one life of its plugin: when the connection ends, Lost is closed and the client refuses every
// further call. Whoever wants to go on dials again and negotiates again, so no call is ever made on the strength of
// what an earlier process advertised.
package csi

import "context"

// Identity asks a plugin who it is and what it offers.
type Identity interface {
	// Negotiate reads name, capabilities and node facts, and arms the client for further calls. A plugin that is
	// still starting answers fault.NotReady; a role that the plugin does not serve is fault.Unsupported.
	Negotiate(ctx context.Context, roles Roles) (Instance, error)
	// Probe asks for the plugin's health. An error means unhealthy; Initialising is not a reason to restart it.
	Probe(ctx context.Context) (Readiness, error)
	// Instance returns the facts of the last successful Negotiate and whether there was one.
	Instance() (Instance, bool)
}

// Attacher makes volumes reachable from nodes (PUBLISH_UNPUBLISH_VOLUME).
type Attacher interface {
	// Attach is ControllerPublishVolume.
	Attach(ctx context.Context, req AttachRequest) (AttachAnswer, error)
	// Detach is ControllerUnpublishVolume.
	Detach(ctx context.Context, req DetachRequest) error
}

// Provisioner makes, changes, checks and deletes volumes.
type Provisioner interface {
	// CreateVolume is CreateVolume (CREATE_DELETE_VOLUME).
	CreateVolume(ctx context.Context, req CreateVolumeRequest) (Volume, error)
	// DeleteVolume is DeleteVolume (CREATE_DELETE_VOLUME).
	DeleteVolume(ctx context.Context, req DeleteVolumeRequest) error
	// ModifyVolume is ControllerModifyVolume (MODIFY_VOLUME).
	ModifyVolume(ctx context.Context, req ModifyVolumeRequest) error
	// ValidateVolume is ValidateVolumeCapabilities; a refusal is an answer, not an error.
	ValidateVolume(ctx context.Context, req ValidateVolumeRequest) (Validation, error)
}

// Lister reads what the provider has. Lists are no consistent view: entries may be missing or repeated.
type Lister interface {
	// ListVolumes is ListVolumes (LIST_VOLUMES). code ABORTED means that the token is stale: begin with an empty one.
	ListVolumes(ctx context.Context, req ListVolumesRequest) (VolumePage, error)
	// GetCapacity is GetCapacity (GET_CAPACITY).
	GetCapacity(ctx context.Context, req CapacityRequest) (Capacity, error)
	// ListSnapshots is ListSnapshots (LIST_SNAPSHOTS).
	ListSnapshots(ctx context.Context, req ListSnapshotsRequest) (SnapshotPage, error)
}

// Snapshotter makes and deletes snapshots (CREATE_DELETE_SNAPSHOT).
type Snapshotter interface {
	// CreateSnapshot is CreateSnapshot; repeat it with equal arguments until the answer is ready to use.
	CreateSnapshot(ctx context.Context, req CreateSnapshotRequest) (Snapshot, error)
	// DeleteSnapshot is DeleteSnapshot; never for a member of a group.
	DeleteSnapshot(ctx context.Context, req DeleteSnapshotRequest) error
}

// GroupSnapshotter makes, reads and deletes snapshots of several volumes at one moment.
type GroupSnapshotter interface {
	// CreateGroupSnapshot is CreateVolumeGroupSnapshot; repeat it with equal arguments until ready to use.
	CreateGroupSnapshot(ctx context.Context, req CreateGroupSnapshotRequest) (GroupSnapshot, error)
	// DeleteGroupSnapshot is DeleteVolumeGroupSnapshot and names every member.
	DeleteGroupSnapshot(ctx context.Context, req GroupSnapshotRequest) error
	// GetGroupSnapshot is GetVolumeGroupSnapshot.
	GetGroupSnapshot(ctx context.Context, req GroupSnapshotRequest) (GroupSnapshot, error)
}

// Expander grows volumes at the provider (controller capability EXPAND_VOLUME).
type Expander interface {
	// ExpandVolume is ControllerExpandVolume.
	ExpandVolume(ctx context.Context, req ExpandVolumeRequest) (ExpandAnswer, error)
}

// NodeStager prepares a volume once on a node (STAGE_UNSTAGE_VOLUME).
type NodeStager interface {
	// Stage is NodeStageVolume.
	Stage(ctx context.Context, req StageRequest) error
	// Unstage is NodeUnstageVolume.
	Unstage(ctx context.Context, req UnstageRequest) error
}

// NodePublisher exposes a volume at a path of the node.
type NodePublisher interface {
	// Publish is NodePublishVolume.
	Publish(ctx context.Context, req PublishRequest) error
	// Unpublish is NodeUnpublishVolume.
	Unpublish(ctx context.Context, req UnpublishRequest) error
}

// NodeInspector measures and grows volumes on a node.
type NodeInspector interface {
	// VolumeStats is NodeGetVolumeStats (GET_VOLUME_STATS).
	VolumeStats(ctx context.Context, req StatsRequest) (Stats, error)
	// NodeExpand is NodeExpandVolume (node capability EXPAND_VOLUME); it answers the new size, 0 when not told.
	NodeExpand(ctx context.Context, req NodeExpandRequest) (int64, error)
}

// Session is the life of one connection.
type Session interface {
	// Lost is closed when the connection to the plugin process has ended. Calls under way end by themselves, with an
	// unknown result; new ones are refused without being sent.
	Lost() <-chan struct{}
	// Close ends the connection; calls under way end with an unknown result. It may be called more than once.
	Close() error
}

var (
	_ Identity         = (*Client)(nil)
	_ Attacher         = (*Client)(nil)
	_ Provisioner      = (*Client)(nil)
	_ Lister           = (*Client)(nil)
	_ Snapshotter      = (*Client)(nil)
	_ GroupSnapshotter = (*Client)(nil)
	_ Expander         = (*Client)(nil)
	_ NodeStager       = (*Client)(nil)
	_ NodePublisher    = (*Client)(nil)
	_ NodeInspector    = (*Client)(nil)
	_ Session          = (*Client)(nil)
)
