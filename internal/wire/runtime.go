package wire

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/device"
	"berth/internal/model/volume"
)

// Methods that a node serves on the connection it dialled; servers forward to them. Every request names the node, so
// that a server can route it: the same descriptors are served by both halves.
var (
	AllocRestart   = Unary[AllocRestartRequest, Empty]("Alloc.Restart")
	AllocSignal    = Unary[AllocSignalRequest, Empty]("Alloc.Signal")
	AllocStats     = Unary[AgentRef, AllocStatsReply]("Alloc.Stats")
	AllocChecks    = Unary[AgentRef, AllocChecksReply]("Alloc.Checks")
	AgentHostStats = Unary[AgentRef, HostStatsReply]("Agent.HostStats")
	AllocFiles     = Unary[AllocPath, FilesReply]("Alloc.Files")
	AllocFileStat  = Unary[AllocPath, FilesReply]("Alloc.FileStat")
	AllocFileRead  = Bidi[FileReadRequest, Empty, StreamFrame]("Alloc.FileRead")
	AllocLogs      = Bidi[AllocLogsRequest, Empty, StreamFrame]("Alloc.Logs")
	AllocExec      = Bidi[AllocExecRequest, ExecInput, ExecOutput]("Alloc.Exec")
	AgentMonitor   = Bidi[AgentMonitorRequest, Empty, StreamFrame]("Agent.Monitor")
	AgentGC        = Unary[AgentRef, Empty]("Agent.GC")
	// AllocEndOrphan ends an alloc that nobody decides about, because a person said so; the reply comes when that has
	// begun.
	AllocEndOrphan = Unary[AgentRef, Empty]("Alloc.EndOrphan")
	// AllocOrphan tells what such an alloc is, for a person who wants to give it to the servers' state.
	AllocOrphan = Unary[AgentRef, Orphan]("Alloc.Orphan")
	// AgentForgetMount and AgentReleaseVolume take a person's word about what the node cannot find out.
	AgentForgetMount   = Unary[ForgetMountRequest, Empty]("Agent.ForgetMount")
	AgentReleaseVolume = Unary[ReleaseVolumeRequest, Empty]("Agent.ReleaseVolume")
	// AgentVolumeUsage tells what a node measured last of a volume that is in use there.
	AgentVolumeUsage = Unary[VolumeUsageRequest, VolumeUsage]("Agent.VolumeUsage")
	// Controller reads: not durable work, made on a node whose controller instance is ready.
	AgentListVolumes    = Unary[PluginReadRequest, ProviderList[ExternalVolume]]("Agent.ListVolumes")
	AgentListSnapshots  = Unary[PluginReadRequest, ProviderList[*volume.Snapshot]]("Agent.ListSnapshots")
	AgentValidateVolume = Unary[ValidateVolumeRequest, ValidateVolumeReply]("Agent.ValidateVolume")
	AgentCapacity       = Unary[CapacityRequest, CapacityReply]("Agent.Capacity")
)

// AgentRef names an alloc on a node. With Alloc empty the node itself is meant.
type AgentRef struct {
	Node  ids.Node
	Alloc ids.Alloc
}

// ForgetMountRequest says of an unknown mount of a node that it is none of a volume that the cluster knows.
type ForgetMountRequest struct {
	Node   ids.Node
	Path   string
	Reason string
	By     string // who says so, as the API knows them
}

// ReleaseVolumeRequest says of a volume that a node has unmounted, and that its plugin does not unstage, that nothing
// of it is left there.
type ReleaseVolumeRequest struct {
	Node ids.Node
	volume.StagingKey
	Reason string
	By     string
}

// VolumeUsageRequest names a volume on a node.
type VolumeUsageRequest struct {
	Node ids.Node
	volume.StagingKey
}

// VolumeUsage is what a node measured last of a volume, and the allocs there that use it.
type VolumeUsage struct {
	Node   ids.Node
	Allocs []ids.Alloc
	volume.Measured
}

// AllocRestartRequest restarts one task, or all; AllTasks includes those that ended.
type AllocRestartRequest struct {
	AgentRef
	Task            string
	AllTasks        bool
	NoShutdownDelay bool
}

// AllocSignalRequest signals one task, or all that run.
type AllocSignalRequest struct {
	AgentRef
	Task   string
	Signal string
}

// Usage is a reading of resources.
type Usage struct {
	MemoryRSS, MemoryCache, MemoryUsage, MemoryMax, MemorySwap uint64 // bytes
	CPUPercent, UserPercent, SystemPercent                     float64
	CPUTicks                                                   float64 // MHz
	ThrottledNanos                                             uint64
	Time                                                       int64 // nanoseconds since the epoch
}

// AllocStatsReply is the usage of an alloc.
type AllocStatsReply struct {
	Total Usage
	Tasks map[string]Usage
	// Disk is nil where the node does not limit it, or has not measured it yet.
	Disk *DiskUse
}

// DiskUse is what an alloc's directory took of the node's disk when it was measured last, in bytes.
type DiskUse struct {
	Used, Limit int64
	At          int64 // nanoseconds since the epoch
}

// HostStatsReply is the usage of a node.
type HostStatsReply struct {
	MemTotal, MemUsed, MemFree, MemAvailable uint64
	Uptime                                   uint64 // seconds
	CPUTicks                                 float64
	CPU                                      []CPUStat
	Disks                                    []DiskStat
	AllocDir                                 DiskStat
	Time                                     int64
	Devices                                  []device.Stats
}

// CPUStat is a processor's load in percent.
type CPUStat struct {
	CPU                       string
	Total, User, System, Idle float64
}

// DiskStat is a file system's use.
type DiskStat struct {
	Device, Mountpoint             string
	Size, Used, Available          uint64
	UsedPercent, InodesUsedPercent float64
}

// AllocPath is a path in an alloc's directory.
type AllocPath struct {
	AgentRef
	Path string
}

// FileInfo describes a file.
type FileInfo struct {
	Name        string
	IsDir       bool
	Size        int64
	FileMode    string
	ModTime     time.Time
	ContentType string
}

// FilesReply lists files; Stat gives one.
type FilesReply struct{ Files []FileInfo }

// FileReadRequest reads a file: Limit 0 reads to the end; Follow goes on as it grows. Origin is "start" or "end".
type FileReadRequest struct {
	AllocPath
	Offset int64
	Limit  int64
	Origin string
	Follow bool
}

// AllocLogsRequest reads a task's output over its rotated files.
type AllocLogsRequest struct {
	AgentRef
	Task   string
	Type   string // stdout or stderr
	Offset int64
	Origin string
	Follow bool
}

// StreamFrame is a piece of a file or a log.
type StreamFrame struct {
	Data   []byte
	File   string
	Offset int64
	Event  string // "file deleted", "file truncated"
}

// AllocExecRequest opens a command in a task.
type AllocExecRequest struct {
	AgentRef
	Task    string
	Command []string
	TTY     bool
}

// ExecInput flows to the command.
type ExecInput struct {
	Stdin         []byte
	CloseStdin    bool
	Height, Width int // both > 0: resize
}

// ExecOutput flows from the command; Exited is the last.
type ExecOutput struct {
	Stdout, Stderr           []byte
	CloseStdout, CloseStderr bool
	Exited                   bool
	ExitCode                 int
}

// AgentMonitorRequest streams an agent's log. Node empty: the agent that is asked.
type AgentMonitorRequest struct {
	Node     ids.Node
	Level    string
	JSON     bool
	Location bool
}

// PluginReadRequest asks a controller instance on a node.
type PluginReadRequest struct {
	Node      ids.Node
	Plugin    ids.Plugin
	Provider  string // that the plugin must be of; empty: whichever serves it
	PerPage   int
	NextToken string
	Secrets   Secrets
}

// ValidateVolumeRequest asks ValidateVolumeCapabilities.
type ValidateVolumeRequest struct {
	Node         ids.Node
	Plugin       ids.Plugin
	ExternalID   string
	Context      map[string]string
	Parameters   map[string]string
	Capabilities []volume.Capability
	MountOptions *volume.MountOptions
	Secrets      Secrets
}

// CapacityRequest asks a node's controller plugin what its provider has left for volumes such as this one.
type CapacityRequest struct {
	Node         ids.Node
	Plugin       ids.Plugin
	Provider     string
	Parameters   map[string]string
	Capabilities []volume.Capability
	MountOptions *volume.MountOptions
	Topology     map[string]string
}

// CapacityReply is in bytes. MaximumVolume is 0 where the plugin does not say it.
type CapacityReply struct{ Available, MaximumVolume int64 }

// ValidateVolumeReply: Warning is the plugin's message when it confirmed nothing. A returned capability that was not
// asked for is an Invalid fault that names the difference.
type ValidateVolumeReply struct{ Warning string }
