package api

import (
	"time"
)

// Secrets are values for a storage provider. They travel in JSON, but no formatter or log shows them.
type Secrets map[string]string

// CSIVolume is a volume of a CSI plugin: what was asked of it, and in replies what is known of it.
type CSIVolume struct {
	ID                    string                 `hcl:"id"`
	Name                  string                 `hcl:"name"`
	ExternalID            string                 `hcl:"external_id"`
	Namespace             string                 `hcl:"namespace"`
	RequestedTopologies   *CSITopologyRequest    // in files: topology_request { required { topology { … } } }
	Topologies            []*CSITopology         // where it is reachable from; reply only
	AccessMode            string                 // of the present claims; reply only
	AttachmentMode        string                 // of the present claims; reply only
	MountOptions          *CSIMountOptions       `hcl:"mount_options,block"`
	Ownership             *CSIVolumeOwnership    `hcl:"ownership,block" json:",omitempty"` // an addition of Berth
	Secrets               Secrets                `hcl:"secrets,map"`
	Parameters            map[string]string      `hcl:"parameters,map"`
	Context               map[string]string      `hcl:"context,map"`
	Capacity              int64                  // bytes; reply only
	RequestedCapacityMin  int64                  `hcl:"capacity_min,bytes"`
	RequestedCapacityMax  int64                  `hcl:"capacity_max,bytes"`
	RequestedCapabilities []*CSIVolumeCapability `hcl:"capability,block"`
	CloneID               string                 `hcl:"clone_id"`
	SnapshotID            string                 `hcl:"snapshot_id"`
	ReadAllocs            map[string]*Allocation // the values are null on the wire
	WriteAllocs           map[string]*Allocation
	Allocations           []*AllocationListStub
	Schedulable           bool
	PluginID              string `hcl:"plugin_id"`
	Provider              string
	ProviderVersion       string
	ControllerRequired    bool
	ControllersHealthy    int
	ControllersExpected   int
	NodesHealthy          int
	NodesExpected         int
	ResourceExhausted     *time.Time
	State                 []string `json:",omitempty"` // where it stands, in sentences; an addition of Berth
	// Phase is creating, ready, expanding, deleting, conflict or failed, and LastError is why what is done with the
	// volume has not succeeded, or did not; additions of Berth.
	Phase     string        `json:",omitempty"`
	LastError string        `json:",omitempty"`
	Places    []VolumePlace `json:",omitempty"` // what nodes have of it; an addition of Berth
	// ProvenEnds are the last claims that were ended without their nodes' word, the oldest first; an addition of Berth.
	ProvenEnds  []VolumeProvenEnd `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64 // Unix nanoseconds
	ModifyTime  int64 // Unix nanoseconds
}

// CSIVolumeUsage is what the nodes that use a volume have measured of it; an addition of Berth.
type CSIVolumeUsage struct {
	// Abnormal says that some plugin calls the volume's condition abnormal, on a node or in the list of the provider.
	Abnormal bool
	Nodes    []CSIVolumeNodeUsage
}

// CSIVolumeNodeUsage is what one node measured last. A null part its plugin does not say.
type CSIVolumeNodeUsage struct {
	NodeID      string
	Allocations []string // that use it there
	Bytes       *CSIVolumeAmount
	Inodes      *CSIVolumeAmount
	Condition   *CSIVolumeCondition
	Measured    *time.Time // when the plugin answered; null: never yet
	Error       string     `json:",omitempty"` // why there is no newer answer
}

// CSIVolumeAmount counts bytes or inodes. Used and Available are 0 where the plugin does not say them.
type CSIVolumeAmount struct {
	Total     int64
	Used      int64
	Available int64
}

// CSIVolumeCondition is what a plugin says of a volume's health. It is shown, and decides nothing.
type CSIVolumeCondition struct {
	Abnormal bool
	Message  string
}

// CSIMountOptions are the file system type and flags of a mount.
type CSIMountOptions struct {
	FSType     string   `hcl:"fs_type"`
	MountFlags []string `hcl:"mount_flags"`
}

// CSIVolumeOwnership is whom a file-system volume belongs to when a task starts on it; an addition of Berth. Without it
// a volume that nobody has written to yet is given to the user of the first task that uses it.
type CSIVolumeOwnership struct {
	UID  *int   `hcl:"uid" json:",omitempty"`  // null: the first task's user
	GID  *int   `hcl:"gid" json:",omitempty"`  // null: that user's group
	Mode string `hcl:"mode" json:",omitempty"` // of the volume's root, octal; empty: as it is
	// Policy is none, root_only (also when empty) or recursive_if_root_differs.
	Policy string `hcl:"policy"`
}

// CSIVolumeCapability is one way in which a volume may be used.
type CSIVolumeCapability struct {
	AccessMode     string `hcl:"access_mode"`
	AttachmentMode string `hcl:"attachment_mode"`
}

// CSITopology is a place in the provider's eyes.
type CSITopology struct {
	Segments map[string]string `hcl:"segments,map"`
}

// CSITopologyRequest says where a new volume must, and should preferably, be reachable from.
type CSITopologyRequest struct {
	Required  []*CSITopology
	Preferred []*CSITopology
}

// CSIVolumeListStub is a CSI volume in a list.
type CSIVolumeListStub struct {
	ID                  string
	Namespace           string
	Name                string
	ExternalID          string
	Topologies          []*CSITopology
	AccessMode          string
	AttachmentMode      string
	CurrentReaders      int
	CurrentWriters      int
	Schedulable         bool
	PluginID            string
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	ResourceExhausted   *time.Time
	CreateIndex         uint64
	ModifyIndex         uint64
	CreateTime          int64 // Unix nanoseconds
	ModifyTime          int64 // Unix nanoseconds
}

// CSIVolumeRegisterRequest is the body of volume register.
type CSIVolumeRegisterRequest struct {
	Volumes        []*CSIVolume
	PolicyOverride bool
	WriteRequest
}

// CSIVolumeRegisterResponse is the reply to volume register.
type CSIVolumeRegisterResponse struct {
	Volumes  []*CSIVolume
	Warnings string
	Results  []CSIVolumeWriteResult `json:",omitempty"` // in the order of Volumes; an addition of Berth
	QueryMeta
}

// CSIVolumeCreateRequest is the body of volume create.
type CSIVolumeCreateRequest CSIVolumeRegisterRequest

// CSIVolumeCreateResponse is the reply to volume create.
type CSIVolumeCreateResponse CSIVolumeRegisterResponse

// CSIVolumeExternalStub is a volume that a plugin lists, whether registered or not.
type CSIVolumeExternalStub struct {
	ExternalID               string
	CapacityBytes            int64
	VolumeContext            map[string]string
	CloneID                  string
	SnapshotID               string
	PublishedExternalNodeIDs []string
	IsAbnormal               bool
	Status                   string
}

// CSIVolumeListExternalResponse is a page of the volumes that a plugin lists.
type CSIVolumeListExternalResponse struct {
	Volumes []*CSIVolumeExternalStub
	// nodes that could not be asked: what they have is missing; an addition of Berth
	Incomplete []string `json:",omitempty"`
	QueryMeta
}

// CSISnapshot is a snapshot of a volume, held by the provider.
type CSISnapshot struct {
	ID                     string
	ExternalSourceVolumeID string
	SizeBytes              int64
	CreateTime             int64 // Unix seconds
	IsReady                bool
	SourceVolumeID         string
	PluginID               string
	Name                   string
	Secrets                Secrets
	Parameters             map[string]string
}

// CSISnapshotCreateRequest is the body of volume snapshot create.
type CSISnapshotCreateRequest struct {
	Snapshots []*CSISnapshot
	WriteRequest
}

// CSISnapshotCreateResponse is the reply to volume snapshot create.
type CSISnapshotCreateResponse struct {
	Snapshots []*CSISnapshot
	// Warnings and Results, one of each snapshot, are additions of Berth.
	Warnings string
	Results  []CSIVolumeWriteResult
	QueryMeta
}

// CSISnapshotListResponse is a page of the snapshots of a plugin.
type CSISnapshotListResponse struct {
	Snapshots []*CSISnapshot
	// nodes that could not be asked: what they have is missing; an addition of Berth
	Incomplete []string `json:",omitempty"`
	QueryMeta
}
