package wire

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// Methods that a node serves on the connection it dialled; servers forward to them. Every request names the node, so
// that a server can route it: the same descriptors are served by both halves.
var (
	RunRestart = Unary[RunRestartRequest, Empty]("Run.Restart")
	RunSignal  = Unary[RunSignalRequest, Empty]("Run.Signal")
	RunStats   = Unary[RunRef, RunStatsReply]("Run.Stats")
	RunHost    = Unary[RunRef, RunHostReply]("Run.HostStats")
	RunList    = Unary[RunPath, RunListReply]("Run.List")
	RunStat    = Unary[RunPath, RunListReply]("Run.Stat")
	RunRead    = Bidi[RunReadRequest, Empty, RunFrame]("Run.Read")
	RunLogs    = Bidi[RunLogsRequest, Empty, RunFrame]("Run.Logs")
	RunExec    = Bidi[RunExecRequest, RunExecIn, RunExecOut]("Run.Exec")
	RunMonitor = Bidi[RunMonitorRequest, Empty, RunFrame]("Run.Monitor")
	RunGC      = Unary[RunRef, Empty]("Run.GC")
	// Controller reads: not durable work, made on a node whose controller instance is ready.
	RunListVolumes   = Unary[RunPluginRequest, ExternalListReply]("Run.ListVolumes")
	RunListSnapshots = Unary[RunPluginRequest, SnapshotListReply]("Run.ListSnapshots")
	RunCapacity      = Unary[RunPluginRequest, RunCapacityReply]("Run.Capacity")
	RunValidate      = Unary[RunValidateRequest, RunValidateReply]("Run.Validate")
)

// RunRef names an alloc on a node. With Alloc empty the node itself is meant.
type RunRef struct {
	Node  ids.Node
	Alloc ids.Alloc
}

// RunRestartRequest restarts one task, or all; AllTasks includes those that ended.
type RunRestartRequest struct {
	RunRef
	Task            string
	AllTasks        bool
	NoShutdownDelay bool
}

// RunSignalRequest signals one task, or all that run.
type RunSignalRequest struct {
	RunRef
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

// RunStatsReply is the usage of an alloc.
type RunStatsReply struct {
	Total Usage
	Tasks map[string]Usage
}

// RunHostReply is the usage of a node.
type RunHostReply struct {
	MemTotal, MemUsed, MemFree, MemAvailable uint64
	Uptime                                   uint64 // seconds
	CPUTicks                                 float64
	CPU                                      []CPUStat
	Disks                                    []DiskStat
	AllocDir                                 DiskStat
	Time                                     int64
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

// RunPath is a path in an alloc's directory.
type RunPath struct {
	RunRef
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

// RunListReply lists files; Stat gives one.
type RunListReply struct{ Files []FileInfo }

// RunReadRequest reads a file: Limit 0 reads to the end; Follow goes on as it grows. Origin is "start" or "end".
type RunReadRequest struct {
	RunPath
	Offset int64
	Limit  int64
	Origin string
	Follow bool
}

// RunLogsRequest reads a task's output over its rotated files.
type RunLogsRequest struct {
	RunRef
	Task   string
	Type   string // stdout or stderr
	Offset int64
	Origin string
	Follow bool
}

// RunFrame is a piece of a file or a log.
type RunFrame struct {
	Data   []byte
	File   string
	Offset int64
	Event  string // "file deleted", "file truncated"
}

// RunExecRequest opens a command in a task.
type RunExecRequest struct {
	RunRef
	Task    string
	Command []string
	TTY     bool
}

// RunExecIn flows to the command.
type RunExecIn struct {
	Stdin         []byte
	CloseStdin    bool
	Height, Width int // both > 0: resize
}

// RunExecOut flows from the command; Exited is the last.
type RunExecOut struct {
	Stdout, Stderr           []byte
	CloseStdout, CloseStderr bool
	Exited                   bool
	ExitCode                 int
}

// RunMonitorRequest streams an agent's log. Node empty: the agent that is asked.
type RunMonitorRequest struct {
	Node     ids.Node
	Level    string
	JSON     bool
	Location bool
}

// RunPluginRequest asks a controller instance on a node.
type RunPluginRequest struct {
	Node         ids.Node
	Plugin       ids.Plugin
	PerPage      int
	NextToken    string
	Secrets      Secrets
	Parameters   map[string]string
	Capabilities []volume.Capability
	Topology     map[string]string
}

// RunCapacityReply is what GetCapacity said.
type RunCapacityReply struct {
	Available int64 // bytes
	Maximum   int64 // of one volume; 0 unknown
}

// RunValidateRequest asks ValidateVolumeCapabilities.
type RunValidateRequest struct {
	Node         ids.Node
	Plugin       ids.Plugin
	ExternalID   string
	Context      map[string]string
	Parameters   map[string]string
	Capabilities []volume.Capability
	MountOptions *volume.MountOptions
	Secrets      Secrets
}

// RunValidateReply: Warning is the plugin's message when it confirmed nothing. A returned capability that was not asked
// for is an Invalid fault that names the difference.
type RunValidateReply struct{ Warning string }
