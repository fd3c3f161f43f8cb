package shimproto

// Hello opens a connection: the versions that the agent speaks.
type Hello struct{ Min, Max int }

func (m *Hello) table(c *codec) {
	number(c, 1, &m.Min)
	number(c, 2, &m.Max)
}

// HelloReply says who the shim is.
type HelloReply struct {
	Version int // chosen
	PID     int
	Start   uint64 // start time in clock ticks since boot
	Alloc   string
}

func (m *HelloReply) table(c *codec) {
	number(c, 1, &m.Version)
	number(c, 2, &m.PID)
	number(c, 3, &m.Start)
	text(c, 4, &m.Alloc)
}

// Named is a request about one attempt of a task, and part of others.
type Named struct {
	Name    string // "<task>.<attempt>": names the cgroup, and is all that version 1 knows
	Task    string
	Attempt int
}

func (m *Named) table(c *codec) {
	text(c, 1, &m.Name)
	m.attempt(c, 2)
}

// attempt is what version 1 did not have, in two fields from this one on.
func (m *Named) attempt(c *codec, field int) {
	text(c, field, &m.Task)
	number(c, field+1, &m.Attempt)
}

// Launch asks for a process. The task names the log files.
type Launch struct {
	Named
	Argv    []string
	Env     []string
	Dir     string
	Search  []string // directories looked into, before PATH, for a command without a slash
	User    *User    // nil: the shim's own
	Logs    Logs
	Limits  Limits
	Isolate *Isolate
	// Bundle is kept and returned by List, the newest one: whoever finds the shim learns by it what it runs.
	Bundle []byte
	// Reach is for a process without a root of its own, and not in shims of earlier releases, which pass it over.
	Reach *Reach
	// Netns is where the network namespace is held that the process joins; empty: the node's. Shims of earlier releases
	// pass it over, and hold no alloc that has one.
	Netns string
	// OOMScore is the process's oom_score_adj. Shims of earlier releases pass it over.
	OOMScore int
}

func (m *Launch) table(c *codec) {
	text(c, 1, &m.Name)
	text(c, 2, &m.Task)
	texts(c, 3, &m.Argv)
	texts(c, 4, &m.Env)
	text(c, 5, &m.Dir)
	optional(c, 6, &m.User)
	nested(c, 7, &m.Logs)
	nested(c, 8, &m.Limits)
	optional(c, 9, &m.Isolate)
	texts(c, 10, &m.Search)
	number(c, 11, &m.Attempt)
	blob(c, 12, &m.Bundle)
	optional(c, 13, &m.Reach)
	text(c, 14, &m.Netns)
	number(c, 15, &m.OOMScore)
}

// Reach says what a process sees of a directory that only root may enter: of all that lies beneath Dir, Own alone.
// Both are paths as the kernel knows them, without links.
type Reach struct{ Dir, Own string }

func (m *Reach) table(c *codec) {
	text(c, 1, &m.Dir)
	text(c, 2, &m.Own)
}

// User is a resolved user.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

func (m *User) table(c *codec) {
	number(c, 1, &m.UID)
	number(c, 2, &m.GID)
	numbers(c, 3, &m.Groups)
}

// Logs says how output is kept.
type Logs struct {
	Dir      string
	MaxFiles int
	MaxBytes int64
	Disabled bool
}

func (m *Logs) table(c *codec) {
	text(c, 1, &m.Dir)
	number(c, 2, &m.MaxFiles)
	number(c, 3, &m.MaxBytes)
	boolean(c, 4, &m.Disabled)
}

// Limits of a process's cgroup: cgroup.Limits on the wire.
type Limits struct {
	CPUShares int64
	MemoryMax int64 // bytes; 0: none
	MemoryLow int64 // bytes that the kernel tries to leave; 0: none
	Cpuset    string
	PIDs      int64 // processes and threads; 0: no limit
	// IO are bounds of block devices, as io.max takes them. Shims of earlier releases pass them over.
	IO []string
	// Required: a limit without a controller on this node is an error; otherwise it is left out.
	Required bool
}

func (m *Limits) table(c *codec) {
	number(c, 1, &m.CPUShares)
	number(c, 2, &m.MemoryMax)
	number(c, 3, &m.MemoryLow)
	text(c, 4, &m.Cpuset)
	boolean(c, 5, &m.Required)
	number(c, 6, &m.PIDs)
	texts(c, 7, &m.IO)
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
	// Filter is what the process may call, in the words that seccomp(2) takes: eight bytes each, in the machine's
	// order. It is made by the agent and needs NoNewPrivileges; empty: no filter.
	Filter []byte
	// Etc are the entries of the node's /etc that the process sees, relative to it; empty: all, where System has it.
	Etc []string
	// FirstID is the first of the IDs numbers of the node that users and groups 0, 1 … of the process are, in a user
	// namespace of its own; what is mounted from the node keeps its numbers. 0: the node's user namespace. Shims of
	// earlier releases pass it over.
	FirstID uint32
}

// IDs is how many users, and groups, a user namespace has: as many as POSIX demands, so that nobody (65534) is one.
const IDs = 1 << 16

func (m *Isolate) table(c *codec) {
	text(c, 1, &m.Root)
	texts(c, 2, &m.System)
	list(c, 3, &m.Binds)
	list(c, 4, &m.Devices)
	text(c, 5, &m.Hostname)
	numbers(c, 6, &m.Capabilities)
	numbers(c, 7, &m.Ambient)
	boolean(c, 8, &m.HostDevices)
	boolean(c, 9, &m.NoNewPrivileges)
	boolean(c, 10, &m.HostPID)
	boolean(c, 11, &m.HostIPC)
	list(c, 12, &m.Cgroups)
	blob(c, 13, &m.Filter)
	texts(c, 14, &m.Etc)
	number(c, 15, &m.FirstID)
}

// Bind is one mount.
type Bind struct {
	Source, Target string
	ReadOnly       bool
	Propagation    string // "" private, "slave", "shared"
	Volume         string // as people name it, `volume "data"`; empty: no volume's
}

func (m *Bind) table(c *codec) {
	text(c, 1, &m.Source)
	text(c, 2, &m.Target)
	boolean(c, 3, &m.ReadOnly)
	text(c, 4, &m.Propagation)
	text(c, 5, &m.Volume)
}

// Device is one device node. Permissions are of "rwm", empty for reading and writing; shims of earlier releases pass
// them over.
type Device struct{ HostPath, TaskPath, Permissions string }

func (m *Device) table(c *codec) {
	text(c, 1, &m.HostPath)
	text(c, 2, &m.TaskPath)
	text(c, 3, &m.Permissions)
}

// Launched answers Launch.
type Launched struct {
	PID    int
	Cgroup string // in the v2 tree
}

func (m *Launched) table(c *codec) {
	number(c, 1, &m.PID)
	text(c, 2, &m.Cgroup)
}

// Signal asks to signal the main process.
type Signal struct {
	Named
	Number int
}

func (m *Signal) table(c *codec) {
	text(c, 1, &m.Name)
	number(c, 2, &m.Number)
	m.attempt(c, 3)
}

// Kill asks to end everything of a process.
type Kill struct {
	Named
	Number int   // sent first to the main process; 0 none, and no grace
	Grace  int64 // nanoseconds of CLOCK_BOOTTIME to wait after it
}

func (m *Kill) table(c *codec) {
	text(c, 1, &m.Name)
	number(c, 2, &m.Number)
	number(c, 3, &m.Grace)
	m.attempt(c, 4)
}

// Exit is how a process ended.
type Exit struct {
	Code    int
	Signal  int
	OOM     bool
	Err     string
	Ended   int64 // Unix nanoseconds
	LogLost int64 // bytes of output that could not be written
	// Unknown: nothing of the attempt is left, and nobody remembers how it ended, or it was passed over.
	Unknown bool
	// Cancelled: its launch was given up before anybody heard of it.
	Cancelled bool
}

func (m *Exit) table(c *codec) {
	number(c, 1, &m.Code)
	number(c, 2, &m.Signal)
	boolean(c, 3, &m.OOM)
	text(c, 4, &m.Err)
	number(c, 5, &m.Ended)
	number(c, 6, &m.LogLost)
	boolean(c, 7, &m.Unknown)
	boolean(c, 8, &m.Cancelled)
}

// Ended is the answer to a request about an attempt that has ended.
type Ended struct {
	Exit   Exit
	Newest int // the newest attempt of the task that the shim knows
}

func (m *Ended) table(c *codec) {
	nested(c, 1, &m.Exit)
	number(c, 2, &m.Newest)
}

// Lease is until when tasks may run without renewal by the agent.
type Lease struct {
	Deadline int64 // nanoseconds of CLOCK_BOOTTIME after which everything is killed; 0: no lease
	// At is when the agent sent it, in the same clock. A shim ignores what is older than the newest it received, and
	// a newer one only moves the deadline later, or ends the lease.
	At int64
}

func (m *Lease) table(c *codec) {
	number(c, 1, &m.Deadline)
	number(c, 2, &m.At)
}

// Forgotten answers Forget and Bye.
type Forgotten struct {
	// Last: the shim holds nothing any more and exits now.
	Last bool
}

func (m *Forgotten) table(c *codec) {
	boolean(c, 1, &m.Last)
}

// Exec asks for a command beside a running process.
type Exec struct {
	Named
	Argv          []string
	TTY           bool
	Height, Width int
}

func (m *Exec) table(c *codec) {
	text(c, 1, &m.Name)
	texts(c, 2, &m.Argv)
	boolean(c, 3, &m.TTY)
	number(c, 4, &m.Height)
	number(c, 5, &m.Width)
	m.attempt(c, 6)
}

// Resize sets the size of an exec's terminal.
type Resize struct{ Height, Width int }

func (m *Resize) table(c *codec) {
	number(c, 1, &m.Height)
	number(c, 2, &m.Width)
}

// Stats is a reading of a process's cgroup: cgroup.Stats on the wire.
type Stats struct {
	CPUNanos, UserNanos, SystemNanos, ThrottledNanos int64
	RSS, Cache, Usage, Max                           int64
	PIDs                                             int64
}

func (m *Stats) table(c *codec) {
	number(c, 1, &m.CPUNanos)
	number(c, 2, &m.UserNanos)
	number(c, 3, &m.SystemNanos)
	number(c, 4, &m.ThrottledNanos)
	number(c, 5, &m.RSS)
	number(c, 6, &m.Cache)
	number(c, 7, &m.Usage)
	number(c, 8, &m.Max)
	number(c, 9, &m.PIDs)
}

// List answers TypeList.
type List struct {
	Entries []Entry
	Ends    []End
	Bundle  []byte
	// Empty: it holds no process and no end that is waited for, and starts none; not in version 1.
	Empty bool
}

func (m *List) table(c *codec) {
	list(c, 1, &m.Entries)
	list(c, 2, &m.Ends)
	blob(c, 3, &m.Bundle)
	boolean(c, 4, &m.Empty)
}

// Entry is one process that a shim holds.
type Entry struct {
	Named
	PID      int
	Cgroup   string
	Ended    bool
	LogLost  int64
	LogError string // why output was lost last
	Starting bool   // its launch was not answered yet; not in version 1
}

func (m *Entry) table(c *codec) {
	text(c, 1, &m.Name)
	text(c, 2, &m.Task)
	number(c, 3, &m.PID)
	text(c, 4, &m.Cgroup)
	boolean(c, 5, &m.Ended)
	number(c, 6, &m.LogLost)
	text(c, 7, &m.LogError)
	number(c, 8, &m.Attempt)
	boolean(c, 9, &m.Starting)
}

// End is how an attempt ended.
type End struct {
	Task    string
	Attempt int
	Exit    Exit
}

func (m *End) table(c *codec) {
	text(c, 1, &m.Task)
	number(c, 2, &m.Attempt)
	nested(c, 3, &m.Exit)
}
