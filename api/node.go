package api

import "time"

// The statuses of a node.
const (
	NodeStatusInit         = "initializing"
	NodeStatusReady        = "ready"
	NodeStatusDown         = "down"
	NodeStatusDisconnected = "disconnected"
)

// Whether a node takes new allocations.
const (
	NodeSchedulingEligible   = "eligible"
	NodeSchedulingIneligible = "ineligible"
)

// Node is a machine that runs allocations.
type Node struct {
	ID                       string
	Datacenter               string
	Name                     string
	HTTPAddr                 string
	TLSEnabled               bool
	Attributes               map[string]string
	Resources                *Resources `json:",omitempty"` // legacy
	Reserved                 *Resources `json:",omitempty"` // legacy
	NodeResources            *NodeResources
	ReservedResources        *NodeReservedResources
	Links                    map[string]string
	Meta                     map[string]string
	NodeClass                string
	NodePool                 string
	CgroupParent             string
	ComputedClass            string
	Drain                    bool
	DrainStrategy            *DrainStrategy
	SchedulingEligibility    string
	Status                   string
	StatusDescription        string
	StatusUpdatedAt          int64 // Unix seconds
	Events                   []*NodeEvent
	Drivers                  map[string]*DriverInfo
	HostVolumes              map[string]*HostVolumeInfo
	GCVolumesOnNodeGC        bool
	HostNetworks             map[string]*HostNetworkInfo
	CSIControllerPlugins     map[string]*CSIInfo
	CSINodePlugins           map[string]*CSIInfo
	LastDrain                *DrainMetadata
	LastMissedHeartbeatIndex uint64
	LastAllocUpdateIndex     uint64
	NodeMaxAllocs            int
	IdentitySigningKeyID     string
	SecretID                 string // always empty in replies
	// Orphans run on the node, or hold mounts there, while nobody decides about them (Berth's own).
	Orphans []*NodeOrphan `json:",omitempty"`
	// UnknownMounts hold up the release of their plugin's volumes on the node (Berth's own).
	UnknownMounts []*NodeUnknownMount `json:",omitempty"`
	// UnclaimedVolumes are what the node says to hold although nothing on it has a claim of it (Berth's own).
	UnclaimedVolumes []*NodeUnclaimedVolume `json:",omitempty"`
	// RefusedAgents show the node's identity while another agent acts as it (Berth's own).
	RefusedAgents []*NodeRefusedAgent `json:",omitempty"`
	CreateIndex   uint64
	ModifyIndex   uint64
}

// NodeRebootConfirmRequest is a person's word that nothing runs under a node's identity but the agent that the servers
// obey (Berth's own).
type NodeRebootConfirmRequest struct {
	Reason string // how it is known; it is recorded
}

// NodeRebootConfirmResponse says what the word has ended (Berth's own).
type NodeRebootConfirmResponse struct {
	Resolved     string // the doubt that there was; empty: there was none
	NextAccepted bool   // the next agent that registers as the node takes its place
}

// NodeReadmitRequest is a person's permission that an agent which has lost its store takes up the identity of a node
// (Berth's own).
type NodeReadmitRequest struct {
	Reason string // why it is certain that this is the node; it is recorded
	// TTL is how long the token can be used, in nanoseconds; 0: an hour, the most is a day.
	TTL time.Duration `json:",omitempty"`
}

// NodeReadmitResponse hands the token over; nobody keeps it (Berth's own).
type NodeReadmitResponse struct {
	Token   string // used once, by "berth node identity keep"
	Expires time.Time
}

// NodeOrphan is an allocation that a node keeps although the servers' state does not know it, or although the node has
// lost its record of it (Berth's own). It is ended by a person alone.
type NodeOrphan struct {
	AllocID   string
	Namespace string // this and what follows to Name is empty when the node has lost its record
	JobID     string
	TaskGroup string
	Name      string
	Reason    string // why nobody decides about it
	Since     time.Time
	Processes bool     // a process of it may live
	Volumes   []string // ids of the volumes that it was given
	Plugin    bool     // it runs a storage plugin, through which others release their volumes: it is ended after them
	Plugins   []string // the ids of those, as far as they are known
	// RecordLost: the node has lost its record of it. A storage plugin that it runs serves nobody then.
	RecordLost bool
	Awaits     string // what its end waits for; empty: it does not end
}

// NodeUnknownMount is mounted where only storage plugins mount, and nothing says which volume it is; or, without a
// device, it is named by a file that cannot be read (Berth's own).
type NodeUnknownMount struct {
	Path   string
	Device string // major:minor
	FSType string
}

// NodeUnclaimedVolume is a volume that a node says to hold although no allocation on it has a claim of it: of before a
// restore, or the node is wrong, or in other hands. While it says so the volume is given to nobody else (Berth's own).
type NodeUnclaimedVolume struct {
	Namespace  string // of the volume, as the node knows it
	VolumeID   string
	PluginID   string
	ExternalID string
	State      string   // in words
	Allocs     []string // for which the node says to have it mounted
}

// NodeAttributeLocalCSI is the attribute of nodes whose agent is to run the bundled storage plugin (Berth's own). The
// plugin runs with driver raw_exec.
const NodeAttributeLocalCSI = "storage.local_csi"

// NodeRefusedAgent is an agent that is not obeyed because another one acts as the node: a copied disk or data_dir, or
// another boot while the one before may still run (Berth's own). It is shown as long as it tries.
type NodeRefusedAgent struct {
	Address        string
	ObeyedAddress  string // of the agent that acts as the node
	ObeyedSince    time.Time
	Since, LastTry time.Time
	Reason         string
	Hint           string // what to do
}

// NodeForgetMountRequest says of an unknown mount that it is none of a volume that the cluster knows (Berth's own).
type NodeForgetMountRequest struct {
	Path   string
	Reason string
}

// NodeListStub is a node in a list.
type NodeListStub struct {
	Address               string
	ID                    string
	Attributes            map[string]string
	Datacenter            string
	Name                  string
	NodePool              string
	NodeClass             string
	Version               string
	Drain                 bool
	SchedulingEligibility string
	Status                string
	StatusDescription     string
	Drivers               map[string]*DriverInfo
	HostVolumes           map[string]*HostVolumeInfo
	NodeResources         *NodeResources
	ReservedResources     *NodeReservedResources
	LastDrain             *DrainMetadata
	Orphans               int `json:",omitempty"` // how many there are (Berth's own)
	CreateIndex           uint64
	ModifyIndex           uint64
}

// NodeResources is what a node has.
type NodeResources struct {
	Cpu            NodeCpuResources
	Processors     NodeProcessorResources
	Memory         NodeMemoryResources
	Disk           NodeDiskResources
	Devices        []*NodeDeviceResource
	NodeNetworks   []*NodeNetworkResource
	Networks       []*NetworkResource
	MinDynamicPort int
	MaxDynamicPort int
}

// NodeCpuResources is the computing power of a node.
type NodeCpuResources struct {
	CpuShares          int64
	TotalCpuCores      uint16
	ReservableCpuCores []uint16
}

// NodeProcessorResources is the arrangement of a node's cores.
type NodeProcessorResources struct {
	Topology *NodeTopology
}

// NodeTopology are the memory nodes and cores of a machine.
type NodeTopology struct {
	Nodes                  []int
	Distances              [][]int
	Cores                  []NodeCore
	OverrideTotalCompute   int64
	OverrideWitholdCompute int64
}

// NodeCore is one core. Grade is true for a performance core.
type NodeCore struct {
	ID         int
	SocketID   int
	NodeID     int
	Grade      bool
	Disable    bool
	BaseSpeed  int64
	MaxSpeed   int64
	GuessSpeed int64
}

// NodeMemoryResources is the memory of a node.
type NodeMemoryResources struct{ MemoryMB int64 }

// NodeDiskResources is the disk space of a node.
type NodeDiskResources struct{ DiskMB int64 }

// NodeDeviceResource are the devices of one kind on a node.
type NodeDeviceResource struct {
	Vendor     string
	Type       string
	Name       string
	Instances  []*NodeDevice
	Attributes map[string]*Attribute
}

// Attribute is what a device has of something: one of the four, in a unit or none.
type Attribute struct {
	FloatVal  *float64 `json:"Float,omitempty"`
	IntVal    *int64   `json:"Int,omitempty"`
	StringVal *string  `json:"String,omitempty"`
	BoolVal   *bool    `json:"Bool,omitempty"`
	Unit      string
}

// NodeDevice is one device.
type NodeDevice struct {
	ID                string
	Healthy           bool
	HealthDescription string
	Locality          *NodeDeviceLocality
}

// NodeDeviceLocality says where on the bus a device is.
type NodeDeviceLocality struct{ PciBusID string }

// NodeNetworkResource is a network interface of a node.
type NodeNetworkResource struct {
	Mode       string
	Device     string
	MacAddress string
	Speed      int
	Addresses  []NodeNetworkAddress
}

// NodeNetworkAddress is an address of an interface.
type NodeNetworkAddress struct {
	Family        string
	Alias         string
	Address       string
	ReservedPorts string
	Gateway       string
}

// NodeReservedResources is what a node keeps back from allocations.
type NodeReservedResources struct {
	Cpu      NodeReservedCpuResources
	Memory   NodeMemoryResources
	Disk     NodeDiskResources
	Networks NodeReservedNetworkResources
}

// NodeReservedCpuResources is the computing power that a node keeps back.
type NodeReservedCpuResources struct {
	CpuShares        uint64
	ReservedCpuCores []uint16
}

// NodeReservedNetworkResources are the ports that a node keeps back, as ranges in a text.
type NodeReservedNetworkResources struct{ ReservedHostPorts string }

// DriverInfo is what a node knows of a task driver.
type DriverInfo struct {
	Attributes        map[string]string
	Detected          bool
	Healthy           bool
	HealthDescription string
	UpdateTime        time.Time
}

// HostVolumeInfo is a host volume that a node offers.
type HostVolumeInfo struct {
	Name     string
	Path     string
	ReadOnly bool
	ID       string
	// Unhealthy says why no task can have it now; empty when it can. Only Berth has it.
	Unhealthy string `json:",omitempty"`
}

// HostNetworkInfo is a named network of a node.
type HostNetworkInfo struct {
	Name          string
	CIDR          string
	Interface     string
	ReservedPorts string
}

// DrainStrategy is a drain in progress.
type DrainStrategy struct {
	Deadline         time.Duration
	IgnoreSystemJobs bool
	ForceDeadline    time.Time
	StartedAt        time.Time
}

// DrainMetadata is the last drain of a node.
type DrainMetadata struct {
	StartedAt  time.Time
	UpdatedAt  time.Time
	Status     string
	AccessorID string
	Meta       map[string]string
}

// NodeEvent is something that happened to a node.
type NodeEvent struct {
	Message     string
	Subsystem   string
	Details     map[string]string
	Timestamp   time.Time
	CreateIndex uint64
}

// NodeUpdateEligibilityRequest is the body of node eligibility.
type NodeUpdateEligibilityRequest struct {
	NodeID      string
	Eligibility string
}

// NodeUpdateResponse is the reply to drain and eligibility.
type NodeUpdateResponse struct {
	NodeModifyIndex uint64
	EvalIDs         []string
	EvalCreateIndex uint64
	Index           uint64
}

// NodePool is a named set of nodes.
type NodePool struct {
	Name                   string                          `hcl:"name,label"`
	Description            string                          `hcl:"description"`
	Meta                   map[string]string               `hcl:"meta,map"`
	SchedulerConfiguration *NodePoolSchedulerConfiguration `hcl:"scheduler_config,block"`
	NodeIdentityTTL        time.Duration                   `hcl:"node_identity_ttl"` // agents refuse any but zero
	Hash                   []byte
	CreateIndex            uint64
	ModifyIndex            uint64
}

// NodePoolSchedulerConfiguration overrides the scheduler's configuration for a pool. It is not built: agents refuse it.
type NodePoolSchedulerConfiguration struct {
	SchedulerAlgorithm            string `hcl:"scheduler_algorithm"`
	MemoryOversubscriptionEnabled *bool  `hcl:"memory_oversubscription_enabled"`
}
