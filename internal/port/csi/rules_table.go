package csi

import (
	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
)

// rule is what a code means for a call: what is known afterwards, when to try again, and one sentence for a person. Why
// each row is as it is stands in docs/STORAGE.md#what-an-answer-means.
type rule struct {
	finality Finality
	retry    volume.Retry
	hint     string
}

const (
	hintRepeat   = "the outcome is not known; the same call is repeated, or undone when no longer wanted"
	hintNotThere = "the plugin does not know the object; check at the provider whether it still exists"
)

// defaultRules holds for every call without a rule of its own. A code that the specification does not list for a call
// proves nothing about what was done, so it leaves the object uncertain even where a repetition is pointless.
var defaultRules = map[Code]rule{
	codes.OK:       {Final, volume.RetryNever, ""},
	codes.Canceled: {Unknown, volume.RetryBackoff, hintRepeat},
	codes.Unknown:  {Unknown, volume.RetryBackoff, hintRepeat},
	codes.InvalidArgument: {Final, volume.RetryNever,
		"the plugin refuses the arguments; change them, or the version of the plugin"},
	codes.DeadlineExceeded: {Unknown, volume.RetryBackoff,
		"the call took too long and may still be running; it is repeated, or undone when no longer wanted"},
	codes.NotFound: {Unknown, volume.RetryVerify, hintNotThere},
	codes.AlreadyExists: {Unknown, volume.RetryNever,
		"the plugin has such an object with other properties; change the arguments"},
	codes.PermissionDenied: {Final, volume.RetrySlow,
		"the provider does not permit this; check the rights of the credentials"},
	codes.ResourceExhausted: {Unknown, volume.RetryBackoff,
		"the provider is out of a resource; free some, or raise the quota"},
	codes.FailedPrecondition: {Unknown, volume.RetryBackoff,
		"the present state of the object forbids it; see the plugin's message"},
	codes.Aborted: {Unknown, volume.RetryAborted,
		"another operation on the object is pending at the plugin; it is repeated when that has ended"},
	codes.OutOfRange: {Unknown, volume.RetryNever, "a value is outside of what the plugin accepts; change it"},
	codes.Unimplemented: {Final, volume.RetryNever,
		"the plugin does not offer this call; its capabilities are read again"},
	codes.Internal: {Unknown, volume.RetryBackoff, hintRepeat},
	codes.Unavailable: {Unknown, volume.RetryBackoff,
		"the plugin or its provider cannot be reached; it is repeated until it can"},
	codes.DataLoss: {Unknown, volume.RetryBackoff, hintRepeat},
	codes.Unauthenticated: {Final, volume.RetrySecrets,
		"the provider does not accept the credentials; check the secrets of the volume or plugin"},
}

// ownRules are the rows of the specification's error tables that differ from the default.
var ownRules = map[RPC]map[Code]rule{
	Probe: {
		codes.FailedPrecondition: {Final, volume.RetryBackoff,
			"the plugin misses something it depends on; see its message and the logs of its task"},
	},
	CreateVolume: {
		codes.InvalidArgument: {Final, volume.RetryNever,
			"the plugin refuses the parameters or the source; change them"},
		codes.NotFound: {Final, volume.RetryVerify,
			"the source snapshot or volume does not exist; choose another, or create it first"},
		codes.AlreadyExists: {Final, volume.RetryNever,
			"a volume of that name exists with other properties; change the request, or use another name"},
		codes.ResourceExhausted: {Final, volume.RetryOtherPlace,
			"the provider has no room in the requested topology; widen it, free space, or raise the quota"},
		codes.OutOfRange: {Final, volume.RetryNever,
			"the provider cannot make a volume of that size; change capacity_min or capacity_max"},
	},
	DeleteVolume: {
		codes.FailedPrecondition: {Final, volume.RetryBackoff,
			"the provider says that the volume is in use or has snapshots; detach it and delete them first"},
		codes.NotFound: {Unknown, volume.RetryVerify,
			"the provider does not know the volume; it may be gone already, check its list of volumes"},
	},
	ControllerPublishVolume: {
		codes.NotFound: {Final, volume.RetryVerify,
			"the provider does not know the volume or the node; check both there"},
		codes.AlreadyExists: {Unknown, volume.RetryAfterUndo,
			"the volume is attached to this node in another way; it is detached first"},
		codes.FailedPrecondition: {Final, volume.RetryBackoff,
			"the volume is attached to another node; it is attached here once it is released there"},
		codes.ResourceExhausted: {Final, volume.RetryOtherPlace,
			"the node can take no further volume of this plugin; stop a workload there, or let it be placed elsewhere"},
	},
	ControllerUnpublishVolume: {
		codes.NotFound: {Unknown, volume.RetryVerify,
			"the provider does not know the volume or the node, which does not prove that it is detached; check there"},
	},
	ValidateVolumeCapabilities: {
		codes.NotFound: {Final, volume.RetryVerify, "the provider does not know the volume; check its external id"},
	},
	ListVolumes: {
		codes.Aborted: {Final, volume.RetryRestartListing, "the listing changed meanwhile; it begins anew"},
	},
	ListSnapshots: {
		codes.Aborted: {Final, volume.RetryRestartListing, "the listing changed meanwhile; it begins anew"},
	},
	ControllerGetVolume: {
		codes.NotFound: {Final, volume.RetryVerify, "the volume is gone at the provider"},
	},
	GetSnapshot: {
		codes.NotFound: {Final, volume.RetryVerify, "the snapshot is gone at the provider"},
	},
	ControllerModifyVolume: {
		codes.InvalidArgument: {Final, volume.RetryNever,
			"the plugin refuses the parameters and applied none; change them"},
		codes.NotFound: {Final, volume.RetryVerify, hintNotThere},
	},
	CreateSnapshot: {
		codes.AlreadyExists: {Final, volume.RetryNever,
			"a snapshot of that name exists of another volume; use another name"},
		codes.Aborted: {Unknown, volume.RetryAborted, "the snapshot is being made; the call is repeated"},
		codes.ResourceExhausted: {Final, volume.RetryNever,
			"the provider has no room for the snapshot; free space and ask again"},
		codes.Internal: {Unknown, volume.RetryNever,
			"the provider failed, perhaps for want of room; what was begun is deleted, ask again after a look at the " +
				"plugin's message"},
	},
	DeleteSnapshot: {
		codes.InvalidArgument: {Final, volume.RetryNever,
			"the snapshot may belong to a group; delete the group instead"},
		codes.FailedPrecondition: {Final, volume.RetryBackoff,
			"the snapshot is in use, for instance by a volume made from it; delete that first"},
		codes.Aborted: {Unknown, volume.RetryAborted,
			"another operation on the snapshot is pending at the plugin; it is repeated when that has ended"},
	},
	ControllerExpandVolume: {
		codes.InvalidArgument: {Final, volume.RetryNever,
			"the plugin refuses the size or the capability of the volume; change them"},
		codes.NotFound: {Final, volume.RetryVerify, hintNotThere},
		codes.FailedPrecondition: {Final, volume.RetryOffline,
			"the volume cannot grow while it is in use; stop its users, it is expanded then"},
		codes.OutOfRange: {Final, volume.RetryNever,
			"the provider cannot make the volume that large; ask for a smaller size"},
	},
	NodeStageVolume: {
		codes.NotFound: {Final, volume.RetryVerify, hintNotThere},
		codes.AlreadyExists: {Unknown, volume.RetryAfterUndo,
			"the volume is staged on this node in another way; it is unstaged first"},
		codes.FailedPrecondition: {Final, volume.RetryBackoff,
			"the volume cannot be used in the requested mode, or another user on this node must end first"},
	},
	NodeUnstageVolume: {
		codes.NotFound: {Unknown, volume.RetryVerify,
			"the plugin does not know the volume; the mount table decides whether it is unstaged"},
	},
	NodePublishVolume: {
		codes.NotFound: {Final, volume.RetryVerify, hintNotThere},
		codes.AlreadyExists: {Unknown, volume.RetryAfterUndo,
			"the volume is published at this path in another way; it is unpublished first"},
		codes.FailedPrecondition: {Final, volume.RetryBackoff,
			"the volume cannot be used in the requested mode, or it is not staged"},
	},
	NodeUnpublishVolume: {
		codes.NotFound: {Unknown, volume.RetryVerify,
			"the plugin does not know the volume; the mount table decides whether it is unpublished"},
	},
	NodeGetVolumeStats: {
		codes.NotFound: {Final, volume.RetryVerify, "the volume is not at that path; there are no figures for it"},
	},
	NodeExpandVolume: {
		codes.InvalidArgument: {Final, volume.RetryNever,
			"the plugin refuses the size or the capability of the volume; change them"},
		codes.NotFound: {Final, volume.RetryVerify, hintNotThere},
		codes.FailedPrecondition: {Final, volume.RetryOffline,
			"the file system cannot grow while it is in use; stop its users on this node, it is expanded at the next " +
				"start"},
		codes.OutOfRange: {Final, volume.RetryNever,
			"the plugin cannot make the file system that large; ask for a smaller size"},
	},
	CreateVolumeGroupSnapshot: {
		codes.AlreadyExists: {Final, volume.RetryNever,
			"a group snapshot of that name exists of other volumes; use another name"},
		codes.FailedPrecondition: {Final, volume.RetryNever,
			"the volumes cannot be taken together; change the group, or their configuration at the provider"},
		codes.ResourceExhausted: {Final, volume.RetryNever,
			"the provider has no room for the snapshots; free space and ask again"},
		codes.Internal: {Unknown, volume.RetryNever,
			"the provider failed, perhaps for want of room; what was begun is deleted, ask again after a look at the " +
				"plugin's message"},
	},
	DeleteVolumeGroupSnapshot: {
		codes.InvalidArgument: {Final, volume.RetryVerify,
			"the members differ from what the provider has; they are read again"},
		codes.FailedPrecondition: {Final, volume.RetryBackoff,
			"a snapshot of the group is in use; delete what was made from it first"},
	},
	GetVolumeGroupSnapshot: {
		codes.InvalidArgument: {Final, volume.RetryVerify,
			"the members differ from what the provider has; they are read again"},
		codes.NotFound: {Final, volume.RetryVerify, "the group snapshot is gone at the provider"},
	},
}

var kinds = map[Code]fault.Kind{
	codes.Canceled:           fault.Canceled,
	codes.InvalidArgument:    fault.Invalid,
	codes.DeadlineExceeded:   fault.Timeout,
	codes.NotFound:           fault.NotFound,
	codes.AlreadyExists:      fault.Conflict,
	codes.PermissionDenied:   fault.Denied,
	codes.ResourceExhausted:  fault.Exhausted,
	codes.FailedPrecondition: fault.Conflict,
	codes.Aborted:            fault.Busy,
	codes.OutOfRange:         fault.Invalid,
	codes.Unimplemented:      fault.Unsupported,
	codes.Unavailable:        fault.Unavailable,
	codes.Unauthenticated:    fault.Denied,
}
