// Package job owns the internal shape of a job: what Raft and RPC carry. Field names equal those of package api, so
// that one reflective table converts, compares and fills defaults; only fields whose behaviour is built exist here.
package job

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// Types of jobs.
const (
	TypeService = "service"
	TypeBatch   = "batch"
	TypeSystem  = "system"
	// TypeSysBatch runs to its end once on each node that fits.
	TypeSysBatch = "sysbatch"
)

// SchemaBatches is the schema since which there are jobs of the type sysbatch, and allocs that may run only so long.
const SchemaBatches = 13

// NeedsBatches reports a job that older servers and nodes would take for another one.
func (j *Job) NeedsBatches() bool {
	bounded := func(g *TaskGroup) bool { return g.MaxRunDuration != nil }
	return j.Type == TypeSysBatch || slices.ContainsFunc(j.TaskGroups, bounded)
}

// OnEveryNode reports types of jobs that are wanted once on each node that fits.
func OnEveryNode(jobType string) bool { return jobType == TypeSystem || jobType == TypeSysBatch }

// RunsToEnd reports types of jobs whose tasks are done when they end well.
func RunsToEnd(jobType string) bool { return jobType == TypeBatch || jobType == TypeSysBatch }

// Status values of a job, derived from its allocs and evaluations.
const (
	StatusPending = "pending"
	StatusRunning = "running"
	StatusDead    = "dead"
)

// Job is one version of a job as it is stored: canonical (defaults filled in) and validated.
type Job struct {
	Region         string
	Namespace      ids.Namespace
	ID             ids.Job
	Name           string
	Type           string
	Priority       int
	AllAtOnce      bool
	Datacenters    []string
	NodePool       string
	Constraints    []*Constraint
	Affinities     []*Affinity
	Spreads        []*Spread
	TaskGroups     []*TaskGroup
	Meta           map[string]string
	Stop           bool
	Stable         bool
	Version        uint64
	SubmitTime     int64 // nanoseconds since the epoch
	CreateIndex    uint64
	ModifyIndex    uint64
	JobModifyIndex uint64 // index of the last change by a user

	Periodic         *PeriodicConfig         `cbor:",omitempty"`
	ParameterizedJob *ParameterizedJobConfig `cbor:",omitempty"`
	// What follows only servers write.
	ParentID                 ids.Job `cbor:",omitempty"` // empty: no job launched it
	Dispatched               bool    `cbor:",omitempty"`
	Payload                  []byte  `cbor:",omitempty"`
	DispatchIdempotencyToken string  `cbor:",omitempty"`
	LastLaunch               int64   `cbor:",omitempty"` // of a periodic job: seconds since the epoch
	// VersionTag is the name of this version; nil: it has none.
	VersionTag *VersionTag `cbor:",omitempty"`
}

// Group returns the named group or nil.
func (j *Job) Group(name string) *TaskGroup {
	for _, g := range j.TaskGroups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// TaskOf returns a task of a group; nil: there is none of these names, or no job.
func (j *Job) TaskOf(group, task string) *Task {
	if j == nil {
		return nil
	}
	if g := j.Group(group); g != nil {
		return g.Task(task)
	}
	return nil
}

// Stopped reports whether the job is absent or asked to stop.
func (j *Job) Stopped() bool { return j == nil || j.Stop }

// TaskGroup is a set of tasks that are placed together.
type TaskGroup struct {
	Name             string
	Count            int
	Constraints      []*Constraint
	Affinities       []*Affinity
	Spreads          []*Spread
	Tasks            []*Task
	Volumes          map[string]*VolumeRequest
	RestartPolicy    *RestartPolicy
	ReschedulePolicy *ReschedulePolicy // nil for system jobs
	EphemeralDisk    *EphemeralDisk
	Update           *UpdateStrategy // nil where the job type has none
	Networks         []*NetworkResource
	Meta             map[string]string
	ShutdownDelay    time.Duration
	// MaxRunDuration is how long an alloc may run, counted from the first start of a task of it; nil: for ever.
	MaxRunDuration *time.Duration `cbor:",omitempty"`
	Services       []*Service     `cbor:",omitempty"`
	Scaling        *ScalingPolicy `cbor:",omitempty"` // nil: its count has no bounds of its own
	Disconnect     *Disconnect    `cbor:",omitempty"` // nil: allocs of a silent node are lost at once
}

// Task returns the named task or nil.
func (g *TaskGroup) Task(name string) *Task {
	for _, t := range g.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// CSIVolumes returns the group's requests of type csi, ordered by alias.
func (g *TaskGroup) CSIVolumes() []*VolumeRequest { return g.volumes(VolumeTypeCSI) }

// HostVolumes returns the group's requests of type host, ordered by alias.
func (g *TaskGroup) HostVolumes() []*VolumeRequest { return g.volumes(VolumeTypeHost) }

// Task is one process (tree) run by a driver.
type Task struct {
	Name            string
	Driver          string
	User            string
	Lifecycle       *TaskLifecycle
	Config          map[string]any
	Constraints     []*Constraint
	Affinities      []*Affinity
	Env             map[string]string
	Resources       *Resources
	RestartPolicy   *RestartPolicy
	Meta            map[string]string
	KillTimeout     time.Duration
	LogConfig       *LogConfig
	Templates       []*Template
	VolumeMounts    []*VolumeMount
	CSIPluginConfig *CSIPluginConfig
	Leader          bool
	ShutdownDelay   time.Duration
	KillSignal      string
	Services        []*Service  `cbor:",omitempty"`
	Artifacts       []*Artifact `cbor:",omitempty"`
	// Identity is the one named default, as far as the job says more of it than that there is one.
	Identity   *WorkloadIdentity   `cbor:",omitempty"`
	Identities []*WorkloadIdentity `cbor:",omitempty"`
	Secrets    []*Secret           `cbor:",omitempty"`

	DispatchPayload *DispatchPayload `cbor:",omitempty"`
	ScalingPolicies []*ScalingPolicy `cbor:",omitempty"`

	Kind TaskKind `cbor:",omitempty"` // its part in the mesh
}

// Hooks of a task's lifecycle.
const (
	HookPrestart  = "prestart"
	HookPoststart = "poststart"
	HookPoststop  = "poststop"
)

// TaskLifecycle orders a task relative to the main tasks of its group.
type TaskLifecycle struct {
	Hook    string
	Sidecar bool
}

// Resources that a task asks for.
type Resources struct {
	CPU         int // MHz
	MemoryMB    int
	MemoryMaxMB int // 0: MemoryMB; -1: unlimited
	DiskMB      int
	// PIDs is how many processes and threads the task may have; 0: what a node gives a task that asks for no number.
	PIDs int `cbor:",omitempty"`
	// Devices of the node that the task wants for itself.
	Devices []*RequestedDevice `cbor:",omitempty"`
	// Cores are whole ones of the node that nobody else gets, in place of CPU; 0: none.
	Cores int `cbor:",omitempty"`
	// NUMA says how near to each other they are; nil: it does not matter.
	NUMA *NUMAResource `cbor:",omitempty"`
}

// RequestedDevice asks for devices of one kind by type, by vendor and type, or by vendor, type and name.
type RequestedDevice struct {
	Name        string
	Count       uint64
	Constraints []*Constraint
	Affinities  []*Affinity
}

// NetworkResource is a group's network.
type NetworkResource struct {
	Mode          string // model/network has them
	IP            string
	ReservedPorts []Port
	DynamicPorts  []Port
	Hostname      string `cbor:",omitempty"` // of its tasks; may name what is replaced (Expand)
	DNS           *DNS   `cbor:",omitempty"` // nil: as the node resolves names
	CNI           *CNI   `cbor:",omitempty"` // of networks of CNI plugins
}

// CNI is what CNI plugins get beside their configuration. Values may name what is replaced (Expand).
type CNI struct{ Args map[string]string }

// OfNode reports whether the tasks of a group see the node's own network as it is.
func (n *NetworkResource) OfNode() bool { return n.onHost() && n.Hostname == "" && n.DNS == nil }

func (n *NetworkResource) onHost() bool { return n.Mode == "" || n.Mode == "host" }

// Own reports whether the network asks for more than ports of the node's own address, which earlier versions knew
// alone.
func (n *NetworkResource) Own() bool {
	more := func(p Port) bool { return p.HostNetwork != "" || n.onHost() && p.To > 0 }
	return !n.OfNode() || slices.ContainsFunc(n.ReservedPorts, more) || slices.ContainsFunc(n.DynamicPorts, more)
}

// DNS is how the tasks of a group resolve names.
type DNS struct{ Servers, Searches, Options []string }

// Port is a label with a number on the node.
type Port struct {
	Label       string
	Value       int
	To          int
	HostNetwork string
	// IgnoreCollision: other allocs of the same job whose port says so may have the same static port beside this one.
	IgnoreCollision bool `cbor:",omitempty"`
}

// LogConfig bounds what is kept of a task's output.
type LogConfig struct {
	MaxFiles      int
	MaxFileSizeMB int
	Disabled      bool
}

// EphemeralDisk is the alloc's own directory on the node.
type EphemeralDisk struct {
	Sticky  bool
	Migrate bool
	SizeMB  int
}

// Template renders Data (EmbeddedTmpl) to a file of the task.
type Template struct {
	EmbeddedTmpl  string
	DestPath      string
	ChangeMode    string
	ChangeSignal  string
	Perms         string
	Uid, Gid      *int
	LeftDelim     string
	RightDelim    string
	Envvars       bool
	ErrMissingKey bool
	Once          bool
	Splay         time.Duration
	SourcePath    string        `cbor:",omitempty"` // of the text, in the task's directories; empty: EmbeddedTmpl
	ChangeScript  *ChangeScript `cbor:",omitempty"` // with ChangeMode script
	Wait          *WaitConfig   `cbor:",omitempty"` // nil: what changes is rendered at once
}

// Types of volume requests.
const (
	VolumeTypeCSI  = "csi"
	VolumeTypeHost = "host"
)

// VolumeRequest is a group's volume block.
type VolumeRequest struct {
	Name           string // alias
	Type           string
	Source         string // id of the CSI volume (prefix with per_alloc) or name of the host volume
	ReadOnly       bool
	PerAlloc       bool
	AccessMode     string
	AttachmentMode string
	MountOptions   *MountOptions
	Create         *VolumeCreate `cbor:",omitempty"` // nil: it is there, or the job waits for it
}

// VolumeCreate is how the job's registration makes a CSI volume where there is none.
type VolumeCreate struct {
	PluginID    ids.Plugin
	CapacityMin int64 // bytes; 0: the plugin decides
	CapacityMax int64 // bytes; 0: no limit
	Parameters  map[string]string
	Ownership   *volume.Ownership
}

// SourceFor returns the volume id for the alloc of this index: source, or source[index] with per_alloc.
func (r *VolumeRequest) SourceFor(index int) ids.Volume {
	if !r.PerAlloc {
		return ids.Volume(r.Source)
	}
	return ids.Volume(r.Source + "[" + strconv.Itoa(index) + "]")
}

// MountOptions override those of the volume.
type MountOptions struct {
	FSType     string
	MountFlags []string
}

// VolumeMount shows a group's volume in a task.
type VolumeMount struct {
	Volume          string // alias
	Destination     string
	ReadOnly        bool
	PropagationMode string
}

// Roles that a csi_plugin block may name.
const (
	PluginNode       = "node"
	PluginController = "controller"
	PluginMonolith   = "monolith"
)

// MaxCallsAtOnce is the most that a plugin may ask for as CSIPluginConfig.MaxParallel: the servers have a worker for
// each of so many calls that make something, and of so many that undo.
const MaxCallsAtOnce = 256

// CSIPluginConfig makes a task a CSI plugin.
type CSIPluginConfig struct {
	ID                  string
	Type                string
	MountDir            string
	StagePublishBaseDir string
	HealthTimeout       time.Duration
	// ControllerScope is "cluster" (any controller serves any volume) or "node" (the one on the volume's home node).
	ControllerScope string
	// MaxParallel is how many calls of one kind it is asked for at once; 0: as many as a plugin that does not say it.
	MaxParallel int `cbor:",omitempty"`
}

// NodeRole tells whether the plugin acts on the node that it runs on.
func (c *CSIPluginConfig) NodeRole() bool { return c.Type != PluginController }

// ControllerRole tells whether the plugin makes, attaches and deletes volumes.
func (c *CSIPluginConfig) ControllerRole() bool { return c.Type != PluginNode }

// UpdateStrategy bounds how an update rolls through a group. MaxParallel 0 replaces all at once.
type UpdateStrategy struct {
	Stagger          time.Duration
	MaxParallel      int
	HealthCheck      string
	MinHealthyTime   time.Duration
	HealthyDeadline  time.Duration
	ProgressDeadline time.Duration
	Canary           int  `cbor:",omitempty"`
	AutoRevert       bool `cbor:",omitempty"`
	AutoPromote      bool `cbor:",omitempty"`
}

// Modes of a restart policy.
const (
	RestartDelay = "delay"
	RestartFail  = "fail"
)

// RestartPolicy bounds restarts of a task on its node.
type RestartPolicy struct {
	Attempts int
	Interval time.Duration
	Delay    time.Duration
	Mode     string
	// RenderTemplates has templates with once rendered before restarts too.
	RenderTemplates bool `cbor:",omitempty"`
}

// ReschedulePolicy bounds replacements of a failed alloc.
type ReschedulePolicy struct {
	Attempts      int
	Interval      time.Duration
	Delay         time.Duration
	DelayFunction string
	MaxDelay      time.Duration
	Unlimited     bool
}

// Constraint must hold on a node.
type Constraint struct {
	LTarget string
	RTarget string
	Operand string
}

// Affinity makes a node better or worse.
type Affinity struct {
	LTarget string
	RTarget string
	Operand string
	Weight  int8
}

// Spread distributes allocs over the values of an attribute.
type Spread struct {
	Attribute    string
	Weight       int8
	SpreadTarget []*SpreadTarget
}

// SpreadTarget asks for a share of the allocs.
type SpreadTarget struct {
	Value   string
	Percent uint8
}

// AsWritten is the job without what the servers add to it.
func (j *Job) AsWritten() Job {
	c := *j
	c.Stable = false
	c.Version = 0
	c.SubmitTime = 0
	c.CreateIndex = 0
	c.ModifyIndex = 0
	c.JobModifyIndex = 0
	c.LastLaunch = 0
	c.VersionTag = nil
	return c
}

// Submission is the text a job was made from, kept verbatim.
type Submission struct {
	Namespace     ids.Namespace
	Job           ids.Job
	Version       uint64
	Source        string
	Format        string
	VariableFlags map[string]string
	Variables     string
	ModifyIndex   uint64
}

func (g *TaskGroup) volumes(kind string) []*VolumeRequest {
	var out []*VolumeRequest
	for _, v := range g.Volumes {
		if v.Type == kind {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *VolumeRequest) int { return strings.Compare(a.Name, b.Name) })
	return out
}
