package csi

// PluginCap is a capability of the whole plugin (GetPluginCapabilities, service part).
type PluginCap int32

// ControllerCap is a capability of the controller service.
type ControllerCap int32

// NodeCap is a capability of the node service.
type NodeCap int32

// ExpansionCap is a way of growing volumes (GetPluginCapabilities, volume expansion part).
type ExpansionCap int32

// Plugin capabilities.
const (
	CapController            PluginCap = 1
	CapAccessibility         PluginCap = 2
	CapGroupController       PluginCap = 3 // never used
	CapSnapshotMetadata      PluginCap = 4 // alpha, never used
	CapSnapshotAccessibility PluginCap = 5 // alpha, never used
)

// Volume expansion capabilities.
const (
	ExpandOnline  ExpansionCap = 1
	ExpandOffline ExpansionCap = 2
)

// Controller capabilities.
const (
	CapCreateDelete        ControllerCap = 1
	CapAttach              ControllerCap = 2
	CapListVolumes         ControllerCap = 3
	CapGetCapacity         ControllerCap = 4
	CapSnapshot            ControllerCap = 5
	CapListSnapshots       ControllerCap = 6
	CapClone               ControllerCap = 7
	CapAttachReadOnly      ControllerCap = 8
	CapExpand              ControllerCap = 9
	CapListAttachedNodes   ControllerCap = 10
	CapVolumeConditionCtrl ControllerCap = 11 // of specification 1.12 and older
	CapGetVolume           ControllerCap = 12 // alpha
	CapSingleNodeModesCtrl ControllerCap = 13 // alpha
	CapModify              ControllerCap = 14 // shown only
	CapGetSnapshot         ControllerCap = 15 // alpha, never used
	CapGetHealthCtrl       ControllerCap = 16 // alpha, never used
	CapListHealth          ControllerCap = 17 // alpha, never used
)

// Node capabilities.
const (
	CapStage               NodeCap = 1
	CapStats               NodeCap = 2
	CapNodeExpand          NodeCap = 3
	CapVolumeConditionNode NodeCap = 4 // of specification 1.12 and older
	CapSingleNodeModesNode NodeCap = 5 // alpha
	CapMountGroup          NodeCap = 6
	CapGetHealthNode       NodeCap = 7 // alpha, never used
	CapStorageHealth       NodeCap = 8 // alpha, never used
)

var (
	pluginCapNames = map[int32]string{1: "CONTROLLER_SERVICE", 2: "VOLUME_ACCESSIBILITY_CONSTRAINTS",
		3: "GROUP_CONTROLLER_SERVICE", 4: "SNAPSHOT_METADATA_SERVICE", 5: "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS"}
	expansionCapNames  = map[int32]string{1: "ONLINE", 2: "OFFLINE"}
	controllerCapNames = map[int32]string{1: "CREATE_DELETE_VOLUME", 2: "PUBLISH_UNPUBLISH_VOLUME", 3: "LIST_VOLUMES",
		4: "GET_CAPACITY", 5: "CREATE_DELETE_SNAPSHOT", 6: "LIST_SNAPSHOTS", 7: "CLONE_VOLUME", 8: "PUBLISH_READONLY",
		9: "EXPAND_VOLUME", 10: "LIST_VOLUMES_PUBLISHED_NODES", 11: "VOLUME_CONDITION", 12: "GET_VOLUME",
		13: "SINGLE_NODE_MULTI_WRITER", 14: "MODIFY_VOLUME", 15: "GET_SNAPSHOT", 16: "GET_VOLUME_HEALTH",
		17: "LIST_VOLUME_HEALTH"}
	nodeCapNames = map[int32]string{1: "STAGE_UNSTAGE_VOLUME", 2: "GET_VOLUME_STATS", 3: "EXPAND_VOLUME",
		4: "VOLUME_CONDITION", 5: "SINGLE_NODE_MULTI_WRITER", 6: "VOLUME_MOUNT_GROUP", 7: "GET_VOLUME_HEALTH",
		8: "GET_STORAGE_HEALTH"}
)
