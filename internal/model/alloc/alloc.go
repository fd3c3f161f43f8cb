// Package alloc owns allocations: one instance of a group on a node, the states of its tasks, and the flows that move
// them (task_flow.go, alloc_flow.go).
package alloc

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/device"
	"berth/internal/model/job"
)

// Desired status, decided by the servers.
const (
	DesiredRun   = "run"
	DesiredStop  = "stop"
	DesiredEvict = "evict"
)

// Client status. Complete and failed mean: no process is left. Lost is the servers' word for a node that is gone and
// says nothing about storage.
const (
	ClientPending  = "pending"
	ClientRunning  = "running"
	ClientComplete = "complete"
	ClientFailed   = "failed"
	ClientLost     = "lost"
	ClientUnknown  = "unknown"
)

// Alloc is one instance of a group.
type Alloc struct {
	ID                 ids.Alloc         `cbor:",omitzero"`
	Namespace          ids.Namespace     `cbor:",omitzero"`
	Eval               ids.Eval          `cbor:",omitzero"`
	Name               string            `cbor:",omitzero"` // job.group[index]
	Node               ids.Node          `cbor:",omitzero"`
	NodeName           string            `cbor:",omitzero"`
	Job                ids.Job           `cbor:",omitzero"`
	JobVersion         uint64            `cbor:",omitzero"`
	JobCreateIndex     uint64            `cbor:",omitzero"` // tells a purged and registered-again job apart
	JobType            string            `cbor:",omitzero"`
	TaskGroup          string            `cbor:",omitzero"`
	Index              int               `cbor:",omitzero"`
	Resources          Resources         `cbor:",omitzero"`
	DesiredStatus      string            `cbor:",omitzero"`
	DesiredDescription string            `cbor:",omitzero"`
	Migrate            bool              `cbor:",omitzero"` // a person asked to move it (alloc stop)
	Replace            bool              `cbor:",omitzero"` // with Migrate: and said that it is to be rescheduled
	ForceReschedule    bool              `cbor:",omitzero"` // a person asked: job eval -force-reschedule
	NoShutdownDelay    bool              `cbor:",omitzero"`
	PreviousAlloc      ids.Alloc         `cbor:",omitzero"`
	NextAlloc          ids.Alloc         `cbor:",omitzero"`
	Reschedule         []RescheduleEvent `cbor:",omitzero"`
	FollowupEval       ids.Eval          `cbor:",omitzero"`
	Metrics            *Metric           `cbor:",omitzero"`

	ClientStatus      string                `cbor:",omitzero"`
	ClientDescription string                `cbor:",omitzero"`
	TaskStates        map[string]*TaskState `cbor:",omitzero"`
	Network           *NetworkStatus        `cbor:",omitempty"` // nil: the node's own network
	Health            *Health               `cbor:",omitzero"`  // nil: not decided
	// Earlier versions recorded a node's own judgement. It is read, so that their logs and stores are, and means
	// nothing: the servers decide anew.
	NodeHealthy   *bool      `cbor:"Healthy,omitempty"`
	NodeHealthyAt *time.Time `cbor:"HealthyAt,omitempty"`

	// Checks is what the node says of the checks that its health asks for; nil: nothing yet.
	Checks *Checks `cbor:",omitempty"`
	// Withdrawn are the ids of registrations of its services that a person took away.
	Withdrawn []string `cbor:",omitempty"`
	// Deployment is what placed it, or took it over in place; empty: none did. Canary: it is tried beside what it may
	// replace, and was not promoted.
	Deployment ids.Deployment `cbor:",omitempty"`
	Canary     bool           `cbor:",omitempty"`

	// Silence is the last time that nothing was known of it; nil: there was none.
	Silence *Silence `cbor:",omitempty"`

	// Adopted is when a person gave an orphan to this state; 0: the scheduler placed it. Its node takes it up by what
	// its shim holds, should the record be lost.
	Adopted uint64 `cbor:",omitempty"`

	CreateIndex      uint64 `cbor:",omitzero"`
	ModifyIndex      uint64 `cbor:",omitzero"`
	AllocModifyIndex uint64 `cbor:",omitzero"` // last change by the servers
	CreateTime       int64  `cbor:",omitzero"` // nanoseconds since the epoch
	ModifyTime       int64  `cbor:",omitzero"`
}

// Checks is what a node says of the checks of an alloc that must pass for it to be healthy.
type Checks struct {
	// Failing says why not all of them pass; empty: they do.
	Failing string
}

// LostInRestore is the ClientDescription of an alloc of a restored state of which its node has no record: what became
// of it since the state was saved nobody knows. One of a batch job may have ended well, and is not run again by itself.
const LostInRestore = "Its node has no record of it: it may have ended after the servers' state was saved"

// EndedUnrecorded is the ClientDescription of an alloc that a person ended on a node that had lost its record of it.
const EndedUnrecorded = "A person ended it on its node, which had lost its record of it: it may have done its work"

// OutcomeUnknown reports an alloc that has ended, and may have done its work for all that is known. One of a batch job
// is not replaced before a person says so.
func (a *Alloc) OutcomeUnknown() bool {
	return a.ClientDescription == LostInRestore || a.ClientDescription == EndedUnrecorded
}

// StoppedWithAgent is the ClientDescription of an alloc that ended only because its agent did: it has not failed, and
// its successor need not wait.
const StoppedWithAgent = "Stopped together with its agent"

// ClientTerminal reports whether the node said (or the servers decided) that it will not run again.
func (a *Alloc) ClientTerminal() bool {
	return a.ClientStatus == ClientComplete || a.ClientStatus == ClientFailed || a.ClientStatus == ClientLost
}

// ServerTerminal reports whether the servers want it gone.
func (a *Alloc) ServerTerminal() bool {
	return a.DesiredStatus == DesiredStop || a.DesiredStatus == DesiredEvict
}

// Terminal reports whether it is done from either side.
func (a *Alloc) Terminal() bool { return a.ClientTerminal() || a.ServerTerminal() }

// ProcessesGone reports whether the node itself said that no process is left.
func (a *Alloc) ProcessesGone() bool {
	return a.ClientStatus == ClientComplete || a.ClientStatus == ClientFailed
}

// Health is what the servers decided about an alloc that should run: whether its tasks have run undisturbed for the
// group's min_healthy_time. Nodes report states of tasks; whether that is health is decided in one place.
type Health struct {
	Healthy bool
	At      time.Time // of the decision, by the servers' time
	Index   uint64    // of the decision
	Reason  string    // why it is not healthy
}

// Healthy reports whether the servers decided that the alloc is healthy.
func (a *Alloc) Healthy() bool { return a.Health != nil && a.Health.Healthy }

// Unhealthy reports whether the servers decided that the alloc is not healthy.
func (a *Alloc) Unhealthy() bool { return a.Health != nil && !a.Health.Healthy }

// Resources given to an alloc.
type Resources struct {
	Tasks  map[string]TaskResources `cbor:",omitzero"`
	DiskMB int64                    `cbor:",omitzero"`
	Ports  []PortMapping            `cbor:",omitzero"`
}

// TaskResources given to a task.
type TaskResources struct {
	CPUShares   int64    `cbor:",omitzero"`
	MemoryMB    int64    `cbor:",omitzero"`
	MemoryMaxMB int64    `cbor:",omitzero"`
	PIDs        int64    `cbor:",omitempty"` // 0: the node's default
	Cores       []uint16 `cbor:",omitempty"` // of the node, and nobody else's; CPUShares is what they stand for
	// Devices are those of the node that are the task's alone.
	Devices []device.Given `cbor:",omitempty"`
}

// Schema is the lowest schema of a cluster whose servers know all that these allocs have: one that does not know of
// cores would give them away again.
func Schema(allocs []*Alloc) uint64 {
	for _, a := range allocs {
		for _, t := range a.Resources.Tasks { // in any order: one is enough
			if len(t.Cores) > 0 {
				return job.SchemaCores
			}
		}
	}
	return 0
}

// Total sums what counts against a node. A prestart task without sidecar shares its capacity with the main tasks; that
// saving is left out: the sum is the safe bound.
func (r Resources) Total() (cpu, mem, disk int64) {
	for _, t := range r.Tasks {
		cpu += t.CPUShares
		mem += t.MemoryMB
	}
	return cpu, mem, r.DiskMB
}

// PortMapping is a label with the port that was given to it.
type PortMapping struct {
	Label       string
	Value       int
	To          int
	HostIP      string
	HostNetwork string `cbor:",omitempty"` // of the node; empty: its default
	// IgnoreCollision: it may be shared with allocs of the same job whose port says so, too.
	IgnoreCollision bool `cbor:",omitempty"`
}

// NetworkStatus is what an alloc's network on its node is like.
type NetworkStatus struct {
	Interface string // within its namespace
	Address   string
	IPv6      string   `cbor:",omitempty"`
	DNS       *job.DNS `cbor:",omitempty"`
}

// NetworkOr is the network of a report, or that of the report before: an agent that has just started has not looked
// yet.
func (a *Alloc) NetworkOr(before *NetworkStatus) *NetworkStatus {
	if a.Network != nil {
		return a.Network
	}
	return before
}

// RescheduleEvent remembers a replacement.
type RescheduleEvent struct {
	Time      int64 // nanoseconds since the epoch
	PrevAlloc ids.Alloc
	PrevNode  ids.Node
	Delay     time.Duration
}

// ModifyIndexes lists those of allocs.
func ModifyIndexes(as []*Alloc) []uint64 {
	out := make([]uint64, len(as))
	for i, a := range as {
		out[i] = a.ModifyIndex
	}
	return out
}

// Metric explains a placement or its failure.
type Metric struct {
	NodesEvaluated     int            `cbor:",omitzero"`
	NodesFiltered      int            `cbor:",omitzero"`
	NodesInPool        int            `cbor:",omitzero"`
	NodePool           string         `cbor:",omitempty"` // of the job, where nodes failed it; empty: not noted
	NodesAvailable     map[string]int `cbor:",omitzero"`  // by datacenter
	ClassFiltered      map[string]int `cbor:",omitzero"`
	ConstraintFiltered map[string]int `cbor:",omitzero"`
	NodesExhausted     int            `cbor:",omitzero"`
	ClassExhausted     map[string]int `cbor:",omitzero"`
	DimensionExhausted map[string]int `cbor:",omitzero"`
	ScoreMetaData      []*NodeScore   `cbor:",omitzero"`
	AllocationTime     time.Duration  `cbor:",omitzero"`
	CoalescedFailures  int            `cbor:",omitzero"`
	// Storage is what volumes keep from a place, and why; empty: they are not in the way.
	Storage string `cbor:",omitempty"`
	// Reasons tells node by node why it was refused, for people; at most 50 nodes are listed.
	Reasons []NodeReason `cbor:",omitzero"`
}

// NodeScore is how a node scored.
type NodeScore struct {
	NodeID    ids.Node           `cbor:",omitzero"`
	Scores    map[string]float64 `cbor:",omitzero"`
	NormScore float64            `cbor:",omitzero"`
}

// NodeReason is one node's refusal in words, with the way out.
type NodeReason struct {
	Node   ids.Node
	Name   string
	Reason string
	Hint   string
}

// Bundle is what a node gets: the alloc and the job version it was made from.
type Bundle struct {
	Alloc *Alloc
	Job   *job.Job
}

// CSIVolumes lists the ids of the volumes that the alloc's group asks for.
func (b Bundle) CSIVolumes() []string {
	group := b.Job.Group(b.Alloc.TaskGroup)
	if group == nil {
		return nil
	}
	var out []string
	for _, v := range group.CSIVolumes() {
		out = append(out, string(v.SourceFor(b.Alloc.Index)))
	}
	return out
}

// RunsPlugin reports whether a task of the alloc is a CSI plugin: others release their volumes through it.
func (b Bundle) RunsPlugin() bool { return len(b.Plugins()) > 0 }

// Plugins are the CSI plugins that tasks of the alloc are.
func (b Bundle) Plugins() (out []ids.Plugin) {
	group := b.Job.Group(b.Alloc.TaskGroup)
	if group == nil {
		return nil
	}
	for _, t := range group.Tasks {
		if t.CSIPluginConfig != nil {
			out = append(out, ids.Plugin(t.CSIPluginConfig.ID))
		}
	}
	return out
}
