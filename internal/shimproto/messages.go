package shimproto

// Hello opens a connection: the versions that the agent speaks.
type Hello struct{ Min, Max int }

// HelloReply says who the shim is.
type HelloReply struct {
	Version int // chosen
	PID     int
	Start   uint64 // start time in clock ticks since boot
	Alloc   string
}

// Named is a request about one process.
type Named struct{ Name string }

// Launch asks for a process.
type Launch struct {
	Name    string // unique in the shim
	Task    string // names the log files
	Argv    []string
	Env     []string
	Dir     string
	Search  []string // directories looked into, before PATH, for a command without a slash
	User    *User    // nil: the shim's own
	Logs    Logs
	Limits  Limits
	Isolate *Isolate
}

// User is a resolved user.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// Logs says how output is kept.
type Logs struct {
	Dir      string
	MaxFiles int
	MaxBytes int64
	Disabled bool
}

// Limits of a process's cgroup.
type Limits struct {
	CPUShares int64
	MemoryMax int64 // bytes; 0: none
	MemoryLow int64 // bytes that the kernel tries to leave; 0: none
	Cpuset    string
	// Required: a limit without a controller on this node is an error; otherwise it is left out.
	Required bool
}

// Isolate describes namespaces and root of a process.
type Isolate struct {
	Root            string
	System          []string
	Binds           []Bind
	Devices         []Device
	Hostname        string
	Capabilities    []int // kept in the bounding set
	Ambient         []int // given to a user other than root too
	HostDevices     bool
	NoNewPrivileges bool
	HostPID         bool
	HostIPC         bool
	// Cgroups are directories of the process's own cgroup to show below /sys/fs/cgroup; the shim fills them in.
	Cgroups []Bind
}

// Bind is one mount.
type Bind struct {
	Source, Target string
	ReadOnly       bool
	Propagation    string // "" private, "slave", "shared"
}

// Device is one device node.
type Device struct{ HostPath, TaskPath string }

// Launched answers Launch.
type Launched struct {
	PID    int
	Cgroup string // in the v2 tree
}

// Signal asks to signal the main process.
type Signal struct {
	Name   string
	Number int
}

// Kill asks to end everything of a process.
type Kill struct {
	Name   string
	Number int   // sent first to the main process; 0 none
	Grace  int64 // nanoseconds to wait after it
}

// Exit is how a process ended.
type Exit struct {
	Code    int
	Signal  int
	OOM     bool
	Err     string
	Ended   int64 // Unix nanoseconds
	LogLost int64 // bytes of output that could not be written
}

// Forgotten answers Forget and Bye.
type Forgotten struct {
	// Last: the shim holds nothing any more and exits now.
	Last bool
}

// Exec asks for a command beside a running process.
type Exec struct {
	Name          string
	Argv          []string
	TTY           bool
	Height, Width int
}

// Resize sets the size of an exec's terminal.
type Resize struct{ Height, Width int }

// Stats is a reading of a process's cgroup.
type Stats struct {
	CPUNanos, UserNanos, SystemNanos, ThrottledNanos int64
	RSS, Cache, Usage, Max                           int64
	PIDs                                             int64
}

// List answers TypeList.
type List struct{ Entries []Entry }

// Entry is one process that a shim holds.
type Entry struct {
	Name, Task string
	PID        int
	Cgroup     string
	Ended      bool
	LogLost    int64
	LogError   string // why output was lost last
}
