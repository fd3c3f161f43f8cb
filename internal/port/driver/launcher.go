package driver

import (
	"context"
	"fmt"
	"time"

	"berth/internal/base/ids"
)

// Launcher starts and holds processes so that they outlive the agent: one helper process ("shim") per alloc owns its
// tasks' processes, their cgroups, exit codes and log rotation. client/shim implements it; drivers use it.
type Launcher interface {
	// Launch starts a process in the alloc's shim (which it starts first when the alloc has none) and returns when it
	// runs. The handle is all that Attach needs after a restart of the agent. It may be repeated: for an attempt that
	// runs, or has ended, it returns that one. *AttemptOver: a new attempt is needed.
	Launch(ctx context.Context, spec *LaunchSpec) (Process, error)
	// Abort ends an attempt of which nobody has heard whether its Launch succeeded, and returns when nothing of it
	// lives. One that was never launched is no error.
	Abort(ctx context.Context, alloc ids.Alloc, task string, attempt int) error
	// Attach finds a launched process again, in a running shim that holds it or remembers its end. fault.NotFound: the
	// processes are gone for certain, and how they ended is not known.
	Attach(ctx context.Context, h ProcessHandle) (Process, error)
}

// Process is one launched process with its cgroup.
type Process interface {
	Handle() ProcessHandle
	Wait(ctx context.Context) (ExitResult, error)
	// Signal sends to the main process.
	Signal(ctx context.Context, signal string) error
	// Kill ends every process of the cgroup and returns when cgroup.events says that none is left; then the shim
	// forgets the process. With grace > 0 it sends signal first and waits that long for the main process. The wait is
	// the shim's: it goes on when ctx ends or the agent dies, and a repeated Kill can only bring its end nearer.
	Kill(ctx context.Context, signal string, grace time.Duration) error
	// Stats and Exec as in Task.
	Inspector
}

// OOMCounter is a Task or a Process that knows how many of its processes the kernel has killed for the memory limit
// since it started. It asks no other process, so that it may be asked often.
type OOMCounter interface{ OOMKills() int64 }

// Inspector looks into a running process.
type Inspector interface {
	Stats(ctx context.Context) (Stats, error)
	Exec(ctx context.Context, req ExecRequest) (ExitResult, error)
}

// ProcessHandle is the durable reference to a launched process.
type ProcessHandle struct {
	Socket  string // the shim's socket
	ShimPID int
	// ShimStart is the shim's start time in clock ticks since boot, so that a reused pid is not taken for it.
	ShimStart uint64
	Name      string // unique in the shim: ProcessName of task and attempt
	Task      string
	Attempt   int
	PID       int
	Cgroup    string // path of the process's cgroup in the v2 tree
	Boot      string // kernel boot id
}

// LaunchSpec says what to start.
type LaunchSpec struct {
	AllocID   string
	Task      string
	Attempt   int // of the task, from 1 on; a later start has a higher one
	Argv      []string
	Env       []string // sorted "K=V"
	Dir       string   // working directory, as the process sees it
	Search    []string // directories looked into, before PATH, for a command without a slash
	User      string   // name, uid or uid:gid; empty: the agent's own
	Logs      LogConfig
	Resources Resources
	IO        []string // bounds of block devices, one a device, as the kernel's io.max takes them: "8:0 rbps=1048576"
	OOMScore  int      // 0 to 1000: how much sooner than others it is killed when the node is out of memory
	// Isolate is nil for a process that shares everything with the node.
	Isolate *IsolateSpec
	// Netns is the path at which the network namespace is held that the process joins; empty: the node's.
	Netns string
	// Reach is for a process of another user than the agent's that is not isolated; nil: it sees the node's tree as it
	// is.
	Reach *Reach
}

// Reach is what a process sees of a directory that only the agent's user may enter: of all that lies beneath Dir, Own
// alone, at its path.
type Reach struct{ Dir, Own string }

// IsolateSpec describes mount, pid, ipc and uts namespaces and the root they see.
type IsolateSpec struct {
	// Root is an empty directory on the node over which the process's root is mounted, in its own namespace only;
	// empty: one that the launcher keeps for all.
	Root string
	// System are directories of the distribution shown read-only at the same path (those that exist).
	System []string
	// Etc are the entries of the node's /etc, relative to it, that are shown in its place (those that exist), so that
	// no file is seen because nobody thought of it. Empty: what System says.
	Etc []string
	// Binds are mounted in order, after System.
	Binds    []Mount
	Devices  []Device
	Hostname string
	// Capabilities that programs of the process can have at all (the bounding set), by name without CAP_; nil keeps
	// none. Root has them, another user only those in Ambient.
	Capabilities []string
	Ambient      []string
	// HostDevices shows the node's /dev instead of a minimal one; SharedRoot keeps mount propagation towards the node
	// for binds that ask for "bidirectional".
	HostDevices bool
	// NoNewPrivileges forbids gaining privileges through exec; set for everything but node-role CSI plugins.
	NoNewPrivileges bool
	// Filter is what the process may ask of the kernel, as port/seccomp makes it; it needs NoNewPrivileges. Empty:
	// everything.
	Filter []byte
	// PIDMode and IPCMode "private" (default) or "host".
	PIDMode, IPCMode string
	// IDs are numbers of the node of which the launcher takes the alloc's own, for a user namespace in which the
	// process has users and groups of its own; nil: the node's. What is mounted from the node keeps its numbers.
	IDs *IDRange
}

// IDRange are numbers of users and of groups, the last one included. Each alloc gets IDsPerAlloc of them.
type IDRange struct{ First, Last uint32 }

// IDsPerAlloc is how many users, and as many groups, the tasks of an alloc have in their user namespaces.
const IDsPerAlloc = 1 << 16

// Allocs is how many allocs at a time can have numbers of their own.
func (r IDRange) Allocs() int { return int((int64(r.Last) - int64(r.First) + 1) / IDsPerAlloc) }

// IDChecker is offered by a Launcher that can say beforehand why processes cannot have users of their own on this node.
type IDChecker interface {
	// CheckIDs returns nil if directories of the node, and what the launcher knows of, can be shown in a user namespace
	// with numbers of this range.
	CheckIDs(ctx context.Context, r IDRange, trees []string) error
}

// IOChecker is offered by a Launcher that can say beforehand why it could not bound a process's use of block devices.
type IOChecker interface{ CheckIO() error }

// Checker is offered by a Launcher that can say beforehand why it could not launch on this node: drivers ask it for
// their fingerprint.
type Checker interface {
	// Check returns nil if launching can work; isolated asks for what IsolateSpec needs too.
	Check(isolated bool) error
}

// ProcessName names an attempt of a task within its alloc.
func ProcessName(task string, attempt int) string { return fmt.Sprintf("%s.%d", task, attempt) }

// AttemptOver is the error of a launch whose attempt was given up, or replaced by a later one: nothing of it runs or
// will run. The next launch of the task needs an attempt above Newest.
type AttemptOver struct {
	Task            string
	Attempt, Newest int
}

func (e *AttemptOver) Error() string {
	return fmt.Sprintf("attempt %d of task %q is over, the newest is %d", e.Attempt, e.Task, e.Newest)
}
