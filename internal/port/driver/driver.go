// Package driver owns the contract of task drivers: how a node starts, finds again, stops and watches a task. The
// client's driver manager and task runners see only this package; each driver lives in a package of its own below it.
package driver

import (
	"context"
	"errors"
	"io"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/taskconfig"
	"berth/internal/port/users"
)

// Driver makes tasks of one kind ("exec", "raw_exec"). Implementations are safe for concurrent use and start no
// goroutine in their constructor.
type Driver interface {
	// Name is what a job's task block calls it.
	Name() string
	// Info returns what never changes while the agent runs: the configuration schema and the capabilities.
	Info() Info
	// Fingerprint looks at the node, once. The driver manager calls it again on its own schedule; ending ctx ends it.
	Fingerprint(ctx context.Context) Fingerprint
	Starter
	// Recover finds a task that an earlier agent run started. fault.NotFound: it is certain that no process
	// of it is left and its exit is not known.
	Recover(ctx context.Context, h TaskHandle) (Task, error)
}

// Starter starts tasks, and ends what a start has left that was cut off.
type Starter interface {
	// Start starts a task and returns when its process runs (or could not be started: then nothing is left). The
	// returned task's Handle is persisted before anybody relies on the task. Where ctx ends, or the agent, before it
	// returned, the task may run: the same attempt is asked for again, and is not to run a second time if that can be
	// helped, or Abort is called for it.
	Start(ctx context.Context, cfg *TaskConfig) (Task, error)
	// Abort ends what a Start has left that did not return, and returns when no process of it lives. An attempt that
	// never began, or is over, is no error.
	Abort(ctx context.Context, id ids.Alloc, task string, attempt int) error
}

// ErrNoDriver is how Follow ends of what turned out to be no driver: the manager forgets it.
var ErrNoDriver = errors.New("it is no task driver")

// Keeper is a Driver that keeps tasks which no Launcher holds: they are there whatever a node has recorded of them.
type Keeper interface {
	Driver
	// Keeps names the tasks of an alloc of which something may live; an error: that is not known.
	Keeps(id ids.Alloc) (tasks []string, err error)
	// Drop ends all that lives of an alloc, and returns when nothing does.
	Drop(ctx context.Context, id ids.Alloc) error
}

// Follower is a Driver that tells by itself how it is: it is not asked again and again.
type Follower interface {
	Driver
	// Follow says how the driver is at each change, until ctx ends. The manager calls it once.
	Follow(ctx context.Context, say func(Fingerprint)) error
}

// Task is one started task.
type Task interface {
	Handle() TaskHandle
	// Wait returns the exit once the task's main process ended. Ending ctx ends the wait, not the task. It may be
	// called many times and from many goroutines.
	Wait(ctx context.Context) (ExitResult, error)
	// Stop sends signal (the driver's default when empty), waits up to grace, kills whatever of the task is left,
	// and returns only when no process of it lives (ProcessesGone evidence) and its resources are given back. Stopping
	// a task that ended is not an error. After Stop has returned nil, the shim or driver has forgotten the task.
	Stop(ctx context.Context, signal string, grace time.Duration) error
	// Signal sends one signal to the main process.
	Signal(ctx context.Context, signal string) error
	// Stats reads the present resource usage.
	Stats(ctx context.Context) (Stats, error)
	// Exec runs a command in the task's environment and isolation, and returns its exit. That of a command that cannot
	// run is a shell's: 127 when it is not found, otherwise 126, with a sentence on its standard error.
	Exec(ctx context.Context, req ExecRequest) (ExitResult, error)
}

// Info is the fixed description of a driver.
type Info struct {
	Name         string
	Version      string
	Schema       taskconfig.Schema
	Capabilities Capabilities
	// Unknown: the driver's plugin was not connected yet, and what it takes and can do is not known.
	Unknown bool
	// Users says as whom its tasks run, by the agent's configuration.
	Users users.Policy
}

// MountConfig says what mounts a driver can give a task. The zero value supports all, so that a driver that knows
// nothing of it is not refused.
type MountConfig uint8

// Values of MountConfig.
const (
	MountAll  MountConfig = iota // any host path at any destination
	MountNone                    // none: the task sees the host's own tree
)

// Isolation says how a task's file system relates to the node's.
type Isolation string

// Values of Isolation, as drivers of the field name them.
const (
	IsolationNone   Isolation = "none"
	IsolationChroot Isolation = "chroot" // own root in the task directory
	IsolationImage  Isolation = "image"
)

// Evidence names how a driver proves that a task's processes are gone.
type Evidence string

// Values of Evidence.
const (
	EvidenceCgroup Evidence = "cgroup"
	EvidenceDriver Evidence = "driver"
)

// Capabilities of a driver.
type Capabilities struct {
	SendSignals bool
	Exec        bool
	FSIsolation Isolation
	Mounts      MountConfig
	// SelfFence: the tasks' processes die with their shim (they live in a pid namespace whose init it is).
	SelfFence bool
	Evidence  Evidence
	Networks  Networks
	// DefaultSignal is sent by Stop when the job names none ("SIGINT").
	DefaultSignal string
}

// Health of a driver on this node.
type Health string

// Values of Health, wire-compatible with driver plugins of the field.
const (
	Undetected Health = "undetected"
	Unhealthy  Health = "unhealthy"
	Healthy    Health = "healthy"
)

// Fingerprint is what a driver found on this node.
type Fingerprint struct {
	Health      Health
	Description string            // why it is not healthy, for people
	Attributes  map[string]string // "driver.exec" = "1"
}

// Mount is an instruction to bind a host path into a task. Source is on the node and already verified.
type Mount struct {
	Source      string // absolute path on the node
	Target      string // absolute path in the task
	ReadOnly    bool
	Propagation string // "private" (default), "host-to-task" or "bidirectional"
	Volume      string // whose content it is, as people name it: `volume "data"`; empty: no volume's
}

// Port is one that an alloc was given.
type Port struct {
	Label  string
	Value  int    // at the node
	To     int    // in the alloc's network; 0: as at the node
	HostIP string // at which the node listens
}

// Device is a device node to show in the task.
type Device struct {
	HostPath    string
	TaskPath    string
	Permissions string // subset of "rwm"
}

// Resources of a task.
type Resources struct {
	CPUShares   int64 // MHz asked for; also the relative weight
	MemoryMB    int64
	MemoryMaxMB int64  // 0: MemoryMB is the hard limit; -1: unlimited
	CpusetCores string // kernel list format, empty for any
	PIDs        int64  // processes and threads; 0: DefaultPIDs
}

// DefaultPIDs is how many processes and threads a task may have that asks for no number.
const DefaultPIDs = 4096

// LogConfig says how the task's output is kept. Stdout and stderr go to <Dir>/<task>.stdout.N and <task>.stderr.N.
type LogConfig struct {
	Dir      string
	MaxFiles int
	MaxBytes int64
	Disabled bool
}

// TaskConfig is everything that a driver needs to start a task.
type TaskConfig struct {
	Alloc ids.Alloc
	Job   string
	Group string
	Task  string
	// Attempt makes each start of a task distinct: ID() is unique per alloc, task and attempt.
	Attempt int
	User    string
	Env     map[string]string
	// Config is the task's config block after interpolation, as Schema reads it.
	Config    map[string]any
	Resources Resources
	Logs      LogConfig
	// Directories on the node.
	AllocDir string // shared directory of the alloc ("<alloc>/alloc")
	TaskDir  string // the task's own directory ("<alloc>/<task>"); local, secrets and tmp lie in it
	Mounts   []Mount
	Devices  []Device
	Network  *Network // nil: the node's
	Ports    []Port   // of the alloc
	Address  string   // of the alloc in its network; empty: the node's
	// CSIPluginNode asks for what a node-role CSI plugin needs: CAP_SYS_ADMIN, the node's /dev, shared propagation of
	// its bidirectional mounts. Drivers refuse it with fault.Denied where the agent's configuration does not allow it.
	CSIPluginNode bool
}

// TaskHandle is the durable reference to a started task: what Recover needs. It is encoded in the local store.
type TaskHandle struct {
	Driver  string
	Version int // of State's meaning, owned by the driver
	Alloc   ids.Alloc
	Task    string
	Attempt int
	PID     int // of the main process, for people; 0 unknown
	Started time.Time
	State   []byte // the driver's own
}

// ExitResult is how a process ended.
type ExitResult struct {
	ExitCode  int
	Signal    int  // number of the signal that killed it, 0 if none
	OOMKilled bool // it ended because the kernel killed it, or a child, for the memory limit
	// Unknown: the process is gone and nobody saw how (its shim died).
	Unknown bool
	Err     string // why the start or the wait failed, for people
	Ended   time.Time
}

// SignalBase is what a shell adds to the number of the signal that ended a command.
const SignalBase = 128

// Told returns it with the exit code that stands for its signal where the process left none, as shells and container
// engines have it: whichever driver a task has, its end is told in the same words.
func (r ExitResult) Told() ExitResult {
	if r.Signal != 0 && r.ExitCode == 0 {
		r.ExitCode = SignalBase + r.Signal
	}
	return r
}

// Successful reports exit code 0 without signal, out-of-memory kill or error.
func (r ExitResult) Successful() bool {
	return r.ExitCode == 0 && r.Signal == 0 && !r.OOMKilled && !r.Unknown && r.Err == ""
}

// Stats is a reading of a task's resource usage.
type Stats struct {
	Time           time.Time
	CPUNanos       uint64 // total time used, user and system
	UserNanos      uint64
	SystemNanos    uint64
	ThrottledNanos uint64
	MemoryRSS      uint64 // bytes
	MemoryCache    uint64
	MemoryUsage    uint64 // what the limit counts
	MemoryMax      uint64 // highest usage seen
	PIDs           int
}

// WindowSize of a terminal.
type WindowSize struct{ Height, Width int }

// ExecRequest asks for a command in a running task.
type ExecRequest struct {
	Command []string
	TTY     bool
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer // nil with TTY
	Resize  <-chan WindowSize
}
