package api

import "time"

// The types of a CSI plugin task.
const (
	CSIPluginTypeNode       = "node"
	CSIPluginTypeController = "controller"
	CSIPluginTypeMonolith   = "monolith"
)

// TaskCSIPluginConfig declares that a task is a CSI plugin.
type TaskCSIPluginConfig struct {
	ID                  string        `hcl:"id"`
	Type                string        `hcl:"type"`
	MountDir            string        `hcl:"mount_dir"`
	StagePublishBaseDir string        `hcl:"stage_publish_base_dir"`
	HealthTimeout       time.Duration `hcl:"health_timeout"`
	// ControllerScope is "cluster" (any controller instance serves any volume; the default) or "node" (only the
	// instance on a volume's home node does). An addition of Berth; absent when unset.
	ControllerScope string `json:",omitempty" hcl:"controller_scope"`
	// MaxParallel is how many calls of one kind the plugin is asked for at once; 0: 10 of a controller, 16 of a node.
	// An addition of Berth.
	MaxParallel int `json:",omitempty" hcl:"max_parallel"`
}

// CSIPlugin is a plugin as the cluster sees it: the sum of its instances.
type CSIPlugin struct {
	ID                  string
	Provider            string
	Version             string
	ControllerRequired  bool
	Controllers         map[string]*CSIInfo // by node id
	Nodes               map[string]*CSIInfo // by node id
	Allocations         []*AllocationListStub
	ControllerJobs      map[string]map[string]*CSIPluginJob // by namespace, then job id
	NodeJobs            map[string]map[string]*CSIPluginJob
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	CreateIndex         uint64
	ModifyIndex         uint64
	CreateTime          int64 // Unix nanoseconds
	ModifyTime          int64 // Unix nanoseconds
	// Orphans names the allocations that run it and about which nobody decides, with what a person can do. It is an
	// addition of Berth.
	Orphans []string `json:",omitempty"`
}

// CSIPluginJob names a job that runs a plugin and how many instances it should have.
type CSIPluginJob struct {
	Namespace string
	ID        string
	Expected  int
}

// CSIPluginListStub is a plugin in a list.
type CSIPluginListStub struct {
	ID                  string
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	CreateIndex         uint64
	ModifyIndex         uint64
}

// CSIInfo is one instance of a plugin on a node, in one role.
type CSIInfo struct {
	PluginID                 string
	AllocID                  string
	Healthy                  bool
	HealthDescription        string
	UpdateTime               *time.Time
	Provider                 string
	ProviderVersion          string
	RequiresControllerPlugin bool
	RequiresTopologies       bool
	ControllerInfo           *CSIControllerInfo
	NodeInfo                 *CSINodeInfo
}

// CSIControllerInfo is what a controller instance says it can do.
type CSIControllerInfo struct {
	SupportsCreateDelete             bool
	SupportsAttachDetach             bool
	SupportsListVolumes              bool
	SupportsGetCapacity              bool
	SupportsCreateDeleteSnapshot     bool
	SupportsListSnapshots            bool
	SupportsClone                    bool
	SupportsReadOnlyAttach           bool
	SupportsExpand                   bool
	SupportsListVolumesAttachedNodes bool
	SupportsCondition                bool
	SupportsGet                      bool
}

// CSINodeInfo is what a node instance says of its node and can do there.
type CSINodeInfo struct {
	ID                      string
	MaxVolumes              int64
	AccessibleTopology      *CSITopology
	RequiresNodeStageVolume bool
	SupportsStats           bool
	SupportsExpand          bool
	SupportsCondition       bool
}

// CSIPluginRebindRequest gives what another provider of a plugin had to Provider, the one that serves it now (Berth's
// own). From names the other; it may be left out when there is only one.
type CSIPluginRebindRequest struct {
	Provider string
	From     string `json:",omitempty"`
}

// CSIPluginRebindResponse says whose volumes and snapshots were given over, and how many (Berth's own).
type CSIPluginRebindResponse struct {
	From  string
	Count int
}
