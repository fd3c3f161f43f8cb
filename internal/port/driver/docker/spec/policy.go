// Package spec owns what a task's config block of the driver docker can hold, and the container that it asks for, as
// far as the agent allows it. The driver and package images read blocks by it.
package spec

// Policy is what an agent lets jobs have of its Docker.
type Policy struct {
	// AllowPrivileged lets jobs ask for what makes root of the node: privileged containers, namespaces and devices of
	// the node. Storage plugins that mount on the node need it.
	AllowPrivileged bool
	AllowCaps       []string // that jobs may add; nil: DefaultCaps
	AllowRuntimes   []string // that jobs may choose; nil: runc
	// AllowVolumes lets jobs mount directories of the node, and volumes of the daemon's drivers.
	AllowVolumes bool
	// ExtraLabels are names of what else containers are labelled with: job_name, task_name, and so on.
	ExtraLabels []string
	LogType     string // how the daemon keeps what containers write; empty: in files
	LogOptions  map[string]string
	PIDsLimit   int64 // of tasks that ask for none; 0: driver.DefaultPIDs

	Node func() Node  // who this node is; called when tasks start
	MHz  func() int64 // what its cores do, as the scheduler counts them; 0: not known yet
}

// Node is what containers are labelled with.
type Node struct{ ID, Name string }

// Name of the driver in a job's task block.
const Name = "docker"

// DefaultCaps are the capabilities that a container has unless its job drops them, and that jobs may add.
var DefaultCaps = []string{"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod",
	"net_bind_service", "setfcap", "setgid", "setpcap", "setuid", "sys_chroot"}

// WithDefaults fills in what nobody has set.
func (p Policy) WithDefaults() Policy {
	if p.AllowCaps == nil {
		p.AllowCaps = DefaultCaps
	}
	if p.AllowRuntimes == nil {
		p.AllowRuntimes = []string{"runc"}
	}
	return p
}

// Caps names the capabilities that jobs may add, as they are written.
func (p *Policy) Caps() []string { return plainAll(p.AllowCaps) }
