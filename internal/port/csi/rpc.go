package csi

import "time"

// RPC is the name of a call as the specification spells it.
type RPC string

// The calls of the specification. Those marked alpha or unused are never made, unless it says that they are enabled;
// they are listed because the rules of errors cover them, by which the oracle judges any caller.
const (
	GetPluginInfo         RPC = "GetPluginInfo"
	GetPluginCapabilities RPC = "GetPluginCapabilities"
	Probe                 RPC = "Probe"

	CreateVolume               RPC = "CreateVolume"
	DeleteVolume               RPC = "DeleteVolume"
	ControllerPublishVolume    RPC = "ControllerPublishVolume"
	ControllerUnpublishVolume  RPC = "ControllerUnpublishVolume"
	ValidateVolumeCapabilities RPC = "ValidateVolumeCapabilities"
	ListVolumes                RPC = "ListVolumes"
	GetCapacity                RPC = "GetCapacity"
	ControllerGetCapabilities  RPC = "ControllerGetCapabilities"
	CreateSnapshot             RPC = "CreateSnapshot"
	DeleteSnapshot             RPC = "DeleteSnapshot"
	ListSnapshots              RPC = "ListSnapshots"
	GetSnapshot                RPC = "GetSnapshot" // alpha
	ControllerExpandVolume     RPC = "ControllerExpandVolume"
	ControllerGetVolume        RPC = "ControllerGetVolume"    // alpha, made where that is enabled
	ControllerModifyVolume     RPC = "ControllerModifyVolume" // unused

	GroupControllerGetCapabilities RPC = "GroupControllerGetCapabilities" // unused
	CreateVolumeGroupSnapshot      RPC = "CreateVolumeGroupSnapshot"      // unused
	DeleteVolumeGroupSnapshot      RPC = "DeleteVolumeGroupSnapshot"      // unused
	GetVolumeGroupSnapshot         RPC = "GetVolumeGroupSnapshot"         // unused

	NodeStageVolume     RPC = "NodeStageVolume"
	NodeUnstageVolume   RPC = "NodeUnstageVolume"
	NodePublishVolume   RPC = "NodePublishVolume"
	NodeUnpublishVolume RPC = "NodeUnpublishVolume"
	NodeGetVolumeStats  RPC = "NodeGetVolumeStats"
	NodeExpandVolume    RPC = "NodeExpandVolume"
	NodeGetCapabilities RPC = "NodeGetCapabilities"
	NodeGetInfo         RPC = "NodeGetInfo"
)

// Service is the part of a plugin that serves a call.
type Service string

// The services of the specification.
const (
	IdentityService   Service = "csi.v1.Identity"
	ControllerService Service = "csi.v1.Controller"
	GroupService      Service = "csi.v1.GroupController"
	NodeService       Service = "csi.v1.Node"
)

// effect says whether a call changes anything at the provider or on the node, so that its lost answer leaves something
// uncertain.
type effect uint8

const (
	reads effect = iota
	changes
)

// rpcFacts is what the adapter must know of a call: who serves it, what it does, how people name it, and how long it
// may take by default.
type rpcFacts struct {
	service Service
	effect  effect
	op      string
	timeout time.Duration
}

// Default time-outs (docs/STORAGE.md#calls); a time-out is never a failure, its end is not known.
const (
	identityTimeout   = 30 * time.Second
	nodeTimeout       = 2 * time.Minute
	controllerTimeout = 5 * time.Minute
	createTimeout     = 10 * time.Minute
)

// rpcTable has every call: who serves it, what it does, how people name it, its time-out.
var rpcTable = map[RPC]rpcFacts{
	GetPluginInfo:         {IdentityService, reads, "ask the name of", identityTimeout},
	GetPluginCapabilities: {IdentityService, reads, "ask the capabilities of", identityTimeout},
	Probe:                 {IdentityService, reads, "probe", identityTimeout},

	CreateVolume:               {ControllerService, changes, "create volume", createTimeout},
	DeleteVolume:               {ControllerService, changes, "delete volume", controllerTimeout},
	ControllerPublishVolume:    {ControllerService, changes, "attach volume", controllerTimeout},
	ControllerUnpublishVolume:  {ControllerService, changes, "detach volume", controllerTimeout},
	ValidateVolumeCapabilities: {ControllerService, reads, "validate volume", controllerTimeout},
	ListVolumes:                {ControllerService, reads, "list volumes of", controllerTimeout},
	GetCapacity:                {ControllerService, reads, "ask the capacity of", controllerTimeout},
	ControllerGetCapabilities:  {ControllerService, reads, "ask the controller capabilities of", identityTimeout},
	CreateSnapshot:             {ControllerService, changes, "create snapshot", createTimeout},
	DeleteSnapshot:             {ControllerService, changes, "delete snapshot", controllerTimeout},
	ListSnapshots:              {ControllerService, reads, "list snapshots of", controllerTimeout},
	GetSnapshot:                {ControllerService, reads, "read snapshot", controllerTimeout},
	ControllerExpandVolume:     {ControllerService, changes, "expand volume", controllerTimeout},
	ControllerGetVolume:        {ControllerService, reads, "read volume", controllerTimeout},
	ControllerModifyVolume:     {ControllerService, changes, "modify volume", controllerTimeout},

	GroupControllerGetCapabilities: {GroupService, reads, "ask the group capabilities of", identityTimeout},
	CreateVolumeGroupSnapshot:      {GroupService, changes, "create group snapshot", createTimeout},
	DeleteVolumeGroupSnapshot:      {GroupService, changes, "delete group snapshot", controllerTimeout},
	GetVolumeGroupSnapshot:         {GroupService, reads, "read group snapshot", controllerTimeout},

	NodeStageVolume:     {NodeService, changes, "stage volume", nodeTimeout},
	NodeUnstageVolume:   {NodeService, changes, "unstage volume", nodeTimeout},
	NodePublishVolume:   {NodeService, changes, "publish volume", nodeTimeout},
	NodeUnpublishVolume: {NodeService, changes, "unpublish volume", nodeTimeout},
	NodeGetVolumeStats:  {NodeService, reads, "measure volume", nodeTimeout},
	NodeExpandVolume:    {NodeService, changes, "expand on the node volume", nodeTimeout},
	NodeGetCapabilities: {NodeService, reads, "ask the node capabilities of", identityTimeout},
	NodeGetInfo:         {NodeService, reads, "ask the node facts of", identityTimeout},
}

// FullMethod is the call's name on the wire.
func (r RPC) FullMethod() string { return "/" + string(rpcTable[r].service) + "/" + string(r) }

// Service tells who serves the call.
func (r RPC) Service() Service { return rpcTable[r].service }

// Mutating reports whether the call changes anything at the provider or on the node.
func (r RPC) Mutating() bool { return rpcTable[r].effect == changes }

// DefaultTimeout is how long the call may take when Options say nothing.
func (r RPC) DefaultTimeout() time.Duration { return rpcTable[r].timeout }
