package api

import "time"

// What the servers want of an allocation.
const (
	AllocDesiredStatusRun   = "run"
	AllocDesiredStatusStop  = "stop"
	AllocDesiredStatusEvict = "evict"
)

// What an allocation's node says of it; "lost" and "unknown" are the servers' words for a silent node.
const (
	AllocClientStatusPending  = "pending"
	AllocClientStatusRunning  = "running"
	AllocClientStatusComplete = "complete"
	AllocClientStatusFailed   = "failed"
	AllocClientStatusLost     = "lost"
	AllocClientStatusUnknown  = "unknown"
)

// Allocation is one placement of a task group on a node.
type Allocation struct {
	ID                    string
	Namespace             string
	EvalID                string
	Name                  string
	NodeID                string
	NodeName              string
	JobID                 string
	Job                   *Job
	TaskGroup             string
	Resources             *Resources
	SharedResources       *Resources
	TaskResources         map[string]*Resources
	AllocatedResources    *AllocatedResources
	Metrics               *AllocationMetric
	DesiredStatus         string
	DesiredDescription    string
	DesiredTransition     DesiredTransition
	ClientStatus          string
	ClientDescription     string
	TaskStates            map[string]*TaskState
	PreviousAllocation    string
	NextAllocation        string
	DeploymentID          string
	DeploymentStatus      *AllocDeploymentStatus
	FollowupEvalID        string
	PreemptedAllocations  []string
	PreemptedByAllocation string
	RescheduleTracker     *RescheduleTracker
	NetworkStatus         *AllocNetworkStatus
	SigningKeyID          string
	CreateIndex           uint64
	ModifyIndex           uint64
	AllocModifyIndex      uint64
	Storage               []AllocVolume  `json:",omitempty"` // where its volumes stand; an addition of Berth
	Standing              *AllocStanding `json:",omitempty"` // how it stands, in words; an addition of Berth
	CreateTime            int64          // Unix nanoseconds
	ModifyTime            int64          // Unix nanoseconds
}

// AllocationListStub is an allocation in a list.
type AllocationListStub struct {
	ID                    string
	EvalID                string
	Name                  string
	Namespace             string
	NodeID                string
	NodeName              string
	JobID                 string
	JobType               string
	JobVersion            uint64
	TaskGroup             string
	AllocatedResources    *AllocatedResources
	DesiredStatus         string
	DesiredDescription    string
	ClientStatus          string
	ClientDescription     string
	DesiredTransition     DesiredTransition
	TaskStates            map[string]*TaskState
	DeploymentStatus      *AllocDeploymentStatus
	FollowupEvalID        string
	NextAllocation        string
	RescheduleTracker     *RescheduleTracker
	PreemptedAllocations  []string
	PreemptedByAllocation string
	Standing              *AllocStanding `json:",omitempty"` // how it stands, in words; an addition of Berth
	CreateIndex           uint64
	ModifyIndex           uint64
	CreateTime            int64 // Unix nanoseconds
	ModifyTime            int64 // Unix nanoseconds
}

// AllocStanding tells what the statuses of an allocation leave open: what stops and what is released, and which of its
// tasks is in trouble. It is an addition of Berth.
type AllocStanding struct {
	Phase     string
	Waits     string     `json:",omitempty"` // what it waits for
	Task      string     `json:",omitempty"` // the task in trouble
	Trouble   string     `json:",omitempty"` // how that task ended last
	RestartAt *time.Time `json:",omitempty"` // when that task starts again, by its node's clock
	Attempt   int        `json:",omitempty"` // which of its starts that is
	Attempts  int        `json:",omitempty"` // how many there are; 0: without an end
	Orphan    string     `json:",omitempty"` // why nobody decides about it, and what a person can do
}

// DesiredTransition is what the servers want to be done with an allocation next.
type DesiredTransition struct {
	Migrate                 *bool
	Reschedule              *bool
	ForceReschedule         *bool
	NoShutdownDelay         *bool
	MigrateDisablePlacement *bool
}

// AllocDeploymentStatus is an allocation's health, as the servers decided it.
type AllocDeploymentStatus struct {
	Healthy     *bool
	Timestamp   *time.Time
	Canary      bool
	ModifyIndex uint64
	Reason      string `json:",omitempty"` // why it is not healthy; an addition of Berth
}

// AllocNetworkStatus is the address that an allocation's network was given.
type AllocNetworkStatus struct {
	InterfaceName string
	Address       string
	AddressIPv6   string
	DNS           *DNSConfig
}

// RescheduleTracker remembers earlier placements of a failed allocation.
type RescheduleTracker struct {
	Events         []*RescheduleEvent
	LastReschedule string `json:",omitempty"`
}

// RescheduleEvent is one earlier placement.
type RescheduleEvent struct {
	RescheduleTime int64 // Unix nanoseconds
	PrevAllocID    string
	PrevNodeID     string
	Delay          time.Duration
}

// AllocatedResources is what an allocation was given.
type AllocatedResources struct {
	Tasks          map[string]*AllocatedTaskResources
	TaskLifecycles map[string]*TaskLifecycle
	Shared         AllocatedSharedResources
}

// AllocatedTaskResources is what one task was given.
type AllocatedTaskResources struct {
	Cpu      AllocatedCpuResources
	Memory   AllocatedMemoryResources
	Networks []*NetworkResource
	Devices  []*AllocatedDeviceResource
}

// AllocatedSharedResources is what the tasks of an allocation share.
type AllocatedSharedResources struct {
	DiskMB   int64
	Networks []*NetworkResource
	Ports    []PortMapping
}

// PortMapping is a port that an allocation was given.
type PortMapping struct {
	Label           string
	Value           int
	To              int
	HostIP          string
	IgnoreCollision bool `json:",omitempty"`
}

// AllocatedCpuResources is a share of processors.
type AllocatedCpuResources struct {
	CpuShares     int64
	ReservedCores []uint16
}

// AllocatedMemoryResources is a share of memory.
type AllocatedMemoryResources struct {
	MemoryMB    int64
	MemoryMaxMB int64
}

// AllocatedDeviceResource are devices that a task was given.
type AllocatedDeviceResource struct {
	Vendor    string
	Type      string
	Name      string
	DeviceIDs []string
}

// FilteredStartRefused is the key of AllocationMetric.ConstraintFiltered for nodes that have refused to start the group
// for a reason that trying again does not change. They are asked again when the job has changed, or by ForceReschedule.
const FilteredStartRefused = "start refused"

// AllocationMetric explains a placement, or why there is none.
type AllocationMetric struct {
	NodesEvaluated     int
	NodesFiltered      int
	NodesInPool        int
	NodePool           string
	NodesAvailable     map[string]int
	ClassFiltered      map[string]int
	ConstraintFiltered map[string]int
	NodesExhausted     int
	ClassExhausted     map[string]int
	DimensionExhausted map[string]int
	QuotaExhausted     []string
	ResourcesExhausted map[string]*Resources
	Scores             map[string]float64
	ScoreMetaData      []*NodeScoreMeta
	AllocationTime     time.Duration
	CoalescedFailures  int
	Reasons            []NodeReason `json:",omitempty"` // node by node; an addition of Berth
}

// NodeScoreMeta is how one node was ranked.
type NodeScoreMeta struct {
	NodeID    string
	Scores    map[string]float64
	NormScore float64
}

// AllocStopResponse is the reply to alloc stop.
type AllocStopResponse struct {
	EvalID string
	Index  uint64
}

// AllocRestartRequest is the body of alloc restart. An empty TaskName means all tasks that run.
type AllocRestartRequest struct {
	TaskName string
	AllTasks bool
}

// AllocSignalRequest is the body of alloc signal. An empty Task means all tasks.
type AllocSignalRequest struct {
	Task   string
	Signal string
}
