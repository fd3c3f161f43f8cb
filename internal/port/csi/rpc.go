package csi

import "time"

// RPC is the name of a call as the specification spells it.
type RPC string

// The calls. Those marked alpha are never made; they are listed because the error rules cover them.
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
	ControllerGetVolume        RPC = "ControllerGetVolume" // alpha
	ControllerModifyVolume     RPC = "ControllerModifyVolume"

	GroupControllerGetCapabilities RPC = "GroupControllerGetCapabilities"
	CreateVolumeGroupSnapshot      RPC = "CreateVolumeGroupSnapshot"
	DeleteVolumeGroupSnapshot      RPC = "DeleteVolumeGroupSnapshot"
	GetVolumeGroupSnapshot         RPC = "GetVolumeGroupSnapshot"

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

// rpcFacts is what the adapter must know of a call: who serves it, whether it changes anything (so that its lost
// answer leaves something uncertain), whether it is alpha, how people name it, and how long it may take by default.
type rpcFacts struct {
	service  Service
	mutating bool
	alpha    bool
	op       string
	timeout  time.Duration
}

// Default time-outs (STORAGE decisions); a time-out is never a failure, its end is not known.
const (
	identityTimeout   = 30 * time.Second
	nodeTimeout       = 2 * time.Minute
	controllerTimeout = 5 * time.Minute
	createTimeout     = 10 * time.Minute
)

var rpcTable = map[RPC]rpcFacts{
	GetPluginInfo:         {IdentityService, false, false, "ask the name of", identityTimeout},
	GetPluginCapabilities: {IdentityService, false, false, "ask the capabilities of", identityTimeout},
	Probe:                 {IdentityService, false, false, "probe", identityTimeout},

	CreateVolume:               {ControllerService, true, false, "create volume", createTimeout},
	DeleteVolume:               {ControllerService, true, false, "delete volume", controllerTimeout},
	ControllerPublishVolume:    {ControllerService, true, false, "attach volume", controllerTimeout},
	ControllerUnpublishVolume:  {ControllerService, true, false, "detach volume", controllerTimeout},
	ValidateVolumeCapabilities: {ControllerService, false, false, "validate volume", controllerTimeout},
	ListVolumes:                {ControllerService, false, false, "list volumes of", controllerTimeout},
	GetCapacity:                {ControllerService, false, false, "ask the capacity of", controllerTimeout},
	ControllerGetCapabilities:  {ControllerService, false, false, "ask the controller capabilities of", identityTimeout},
	CreateSnapshot:             {ControllerService, true, false, "create snapshot", createTimeout},
	DeleteSnapshot:             {ControllerService, true, false, "delete snapshot", controllerTimeout},
	ListSnapshots:              {ControllerService, false, false, "list snapshots of", controllerTimeout},
	GetSnapshot:                {ControllerService, false, true, "read snapshot", controllerTimeout},
	ControllerExpandVolume:     {ControllerService, true, false, "expand volume", controllerTimeout},
	ControllerGetVolume:        {ControllerService, false, true, "read volume", controllerTimeout},
	ControllerModifyVolume:     {ControllerService, true, false, "modify volume", controllerTimeout},

	GroupControllerGetCapabilities: {GroupService, false, false, "ask the group capabilities of", identityTimeout},
	CreateVolumeGroupSnapshot:      {GroupService, true, false, "create group snapshot", createTimeout},
	DeleteVolumeGroupSnapshot:      {GroupService, true, false, "delete group snapshot", controllerTimeout},
	GetVolumeGroupSnapshot:         {GroupService, false, false, "read group snapshot", controllerTimeout},

	NodeStageVolume:     {NodeService, true, false, "stage volume", nodeTimeout},
	NodeUnstageVolume:   {NodeService, true, false, "unstage volume", nodeTimeout},
	NodePublishVolume:   {NodeService, true, false, "publish volume", nodeTimeout},
	NodeUnpublishVolume: {NodeService, true, false, "unpublish volume", nodeTimeout},
	NodeGetVolumeStats:  {NodeService, false, false, "measure volume", nodeTimeout},
	NodeExpandVolume:    {NodeService, true, false, "expand on the node volume", nodeTimeout},
	NodeGetCapabilities: {NodeService, false, false, "ask the node capabilities of", identityTimeout},
	NodeGetInfo:         {NodeService, false, false, "ask the node facts of", identityTimeout},
}

// FullMethod is the call's name on the wire.
func (r RPC) FullMethod() string { return "/" + string(rpcTable[r].service) + "/" + string(r) }

// Service tells who serves the call.
func (r RPC) Service() Service { return rpcTable[r].service }

// Mutating reports whether the call changes anything at the provider or on the node.
func (r RPC) Mutating() bool { return rpcTable[r].mutating }

// DefaultTimeout is how long the call may take when Options say nothing.
func (r RPC) DefaultTimeout() time.Duration { return rpcTable[r].timeout }
