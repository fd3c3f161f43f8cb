// Package node owns the internal shape of a client node: what it is, what it has, and what its state is.
package node

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/cores"
	"berth/internal/model/device"
	"berth/internal/model/plugin"
	"berth/internal/model/taskconfig"
)

// Status of a node, decided by the servers.
const (
	StatusInit  = "initializing"
	StatusReady = "ready"
	StatusDown  = "down"
)

// Eligibility for new placements.
const (
	Eligible   = "eligible"
	Ineligible = "ineligible"
)

// Attributes by which a node says what its operator caps of what jobs ask for; without one there is no cap.
const (
	AttributeMaxMemoryMax = "resources.max_memory_max" // MiB
	AttributeMaxPIDs      = "resources.max_pids"
)

// Node is a machine that runs allocs. Fields above Status are said by the node itself, those below by the servers.
type Node struct {
	ID          ids.Node
	SecretHash  string // hex SHA-256 of the node's secret id; the secret itself is never stored
	Name        string
	Datacenter  string
	NodeClass   string
	NodePool    string
	HTTPAddr    string // empty: reach its alloc endpoints through a server
	Address     string
	Attributes  map[string]string
	Meta        map[string]string
	Drivers     map[string]*Driver
	HostVolumes map[string]*HostVolume
	CSI         []*plugin.Instance // one per role and running plugin alloc, ordered by plugin, role, alloc
	Resources   Resources
	Reserved    Resources
	// Orphans run on the node, or hold mounts there, and the servers' state does not know them.
	Orphans []Orphan

	// ReplacedBy does the work of the node since a person attested that its machine is dead; a node that registers
	// again was not.
	ReplacedBy ids.Node `cbor:",omitempty"`

	// Unfollowed says why the node takes no allocs from these servers; empty: it follows them.
	Unfollowed            string
	Status                string
	StatusDescription     string
	StatusUpdatedAt       int64 // seconds since the epoch
	SchedulingEligibility string
	Events                []Event // newest last, at most 10
	CreateIndex           uint64
	ModifyIndex           uint64
}

// KeepOptions takes over what the drivers of the node took before; nil: nothing. It is recorded apart from what else a
// node says of itself, because it is long and seldom changes.
func (n *Node) KeepOptions(old *Node) {
	for name, d := range n.Drivers {
		d.Options = nil
		if old != nil && old.Drivers[name] != nil {
			d.Options = old.Drivers[name].Options
		}
	}
}

// FollowsOthers is said of a node that holds tasks of another cluster state than the one it registered with.
const FollowsOthers = "it holds tasks or volumes of another cluster state and takes none from this one until they " +
	"have ended"

// Ready reports whether the node takes new allocs.
func (n *Node) Ready() bool {
	return n.Status == StatusReady && n.SchedulingEligibility == Eligible && n.Unfollowed == ""
}

// Orphan is an alloc that runs on a node, or holds mounts there, while nobody decides about it: the servers' state does
// not know it, or the node has lost its record. It is kept until it ends by itself or a person ends it.
type Orphan struct {
	Alloc     ids.Alloc
	Namespace ids.Namespace // this and what follows is empty when only the node's record would tell
	Job       ids.Job
	Group     string
	Name      string
	Reason    string // why nobody decides about it
	Since     time.Time
	// Processes: a process of it may live. Volumes are the external ids of what it holds.
	Processes bool
	Volumes   []string
	// Plugin: it runs a storage plugin, through which others release their volumes.
	Plugin bool
	// Plugins are the ids of those, as far as they are known.
	Plugins []ids.Plugin
	// RecordLost: its node has no record of it, so that a plugin of it serves nobody.
	RecordLost bool
	// Awaits says what its end waits for; empty: it does not end.
	Awaits string
}

// Driver is what a node says of one task driver.
type Driver struct {
	Detected          bool
	Healthy           bool
	HealthDescription string
	Attributes        map[string]string
	// NoMounts: the driver can't mount anything into a task (capability MountConfig = none).
	NoMounts   bool
	SelfFence  bool
	UpdateTime time.Time
	// Options are what the config of a task may have; nil: the node does not say.
	Options taskconfig.Schema `cbor:",omitempty"`
}

// HostVolume is a directory of the node that its configuration offers.
type HostVolume struct {
	Name     string
	Path     string
	ReadOnly bool
	// Unhealthy says why it can't be used now; empty when it can.
	Unhealthy string
}

// Resources of a node, or the part of them that is kept back.
type Resources struct {
	CPUShares                      int64 // MHz
	CPUCores                       int
	MemoryMB                       int64
	DiskMB                         int64
	IP                             string
	Device                         string
	MinDynamicPort, MaxDynamicPort int
	ReservedPorts                  []int
	// HostNetworks are addresses beside IP, ordered by name.
	HostNetworks []HostNetwork `cbor:",omitempty"`
	// Devices are what plugins find on the node, ordered by kind.
	Devices []device.Group `cbor:",omitempty"`
	// Cores are those of the node; empty: it does not say, and none of them is given away. Kept are the numbers of
	// those that are kept back, where this is what is kept back.
	Cores []cores.Core `cbor:",omitempty"`
	Kept  []uint16     `cbor:",omitempty"`
}

// HostNetwork is an address of a node by a name that jobs use for ports on it.
type HostNetwork struct {
	Name          string
	Device        string
	Address       string
	ReservedPorts []int // there alone
}

// HostNetwork returns an address by its name, or nil.
func (r *Resources) HostNetwork(name string) *HostNetwork {
	for i := range r.HostNetworks {
		if r.HostNetworks[i].Name == name {
			return &r.HostNetworks[i]
		}
	}
	return nil
}

// Event is something worth telling of a node's life.
type Event struct {
	Message     string
	Subsystem   string
	Details     map[string]string
	Timestamp   time.Time
	CreateIndex uint64
}

// DriverConfined is the attribute by which a node says of a driver that its tasks have a root of their own: a session
// in one does not reach the node.
func DriverConfined(driver string) string { return "driver." + driver + ".confined" }

// DriverOptions is the attribute of a node that lists, with commas between, what a task's config may say to a driver.
func DriverOptions(driver string) string { return "driver." + driver + ".options" }

// DeniedUsers is the attribute of a node that lists, with commas between, users as whom a driver lets no task run.
// There may be others: who a user is, only the node knows.
func DeniedUsers(driver string) string { return "driver." + driver + ".denied_users" }

// DeniedUIDs is the attribute of a node that lists the numbers of users as whom a driver lets no task run, as numbers
// and ranges with commas between: those of DeniedUsers, as far as the node knows them, are among them.
func DeniedUIDs(driver string) string { return "driver." + driver + ".denied_uids" }

// Permission is the attribute of a node by which it says what an option of its agent's configuration allows to the
// tasks of a driver: "1", or a list with commas between; it is named after that option.
func Permission(driver, option string) string { return "driver." + driver + "." + option }

// Permissions are those that a driver may publish. PermitCaps is there on every node that publishes any.
const (
	PermitHostPID = "allow_host_pid"
	PermitHostIPC = "allow_host_ipc"
	PermitCSINode = "allow_csi_node"
	PermitCaps    = "allow_caps"
)
