package api

// Resources is what a task asks of its node. In replies the same type carries sums.
type Resources struct {
	CPU         *int               `hcl:"cpu"`
	Cores       *int               `hcl:"cores"`
	MemoryMB    *int               `hcl:"memory"`
	MemoryMaxMB *int               `hcl:"memory_max"`
	DiskMB      *int               `hcl:"disk"`
	Networks    []*NetworkResource `hcl:"network,block"`
	Devices     []*RequestedDevice `hcl:"device,block"`
	NUMA        *NUMAResource      `hcl:"numa,block"`
	SecretsMB   *int               `hcl:"secrets"`
	IOPS        *int               `hcl:"iops"`
	// PIDs is how many processes and threads the task may have; 0: the agent's default.
	PIDs int `hcl:"pids" json:",omitempty"`
}

// RequestedDevice asks for devices by vendor, type and name.
type RequestedDevice struct {
	Name        string        `hcl:"name,label"`
	Count       *uint64       `hcl:"count"`
	Constraints []*Constraint `hcl:"constraint,block"`
	Affinities  []*Affinity   `hcl:"affinity,block"`
}

// NUMAResource asks for cores of one memory node.
type NUMAResource struct {
	Affinity string   `hcl:"affinity"`
	Devices  []string `hcl:"devices"`
}

// NetworkResource is a network that a group asks for, or was given.
type NetworkResource struct {
	Mode          string     `hcl:"mode"`
	Device        string     `hcl:"device"`
	CIDR          string     `hcl:"cidr"`
	IP            string     `hcl:"ip"`
	DNS           *DNSConfig `hcl:"dns,block"`
	ReservedPorts []Port     // ports with a static number
	DynamicPorts  []Port     `hcl:"port,block"` // ports that the scheduler chooses
	Hostname      string     `hcl:"hostname"`
	MBits         *int       `hcl:"mbits"`
	CNI           *CNIConfig `hcl:"cni,block"`
}

// Port is a labelled port. Value is its number on the host, 0 until one is chosen; To is the number inside the
// group's network, 0 for the same and -1 for the one that was chosen.
type Port struct {
	Label           string `hcl:"label,label"`
	Value           int    `hcl:"static"`
	To              int    `hcl:"to"`
	HostNetwork     string `hcl:"host_network"`
	IgnoreCollision bool   `hcl:"ignore_collision"`
}

// DNSConfig is the resolver configuration of a group's network.
type DNSConfig struct {
	Servers  []string `hcl:"servers"`
	Searches []string `hcl:"searches"`
	Options  []string `hcl:"options"`
}

// CNIConfig carries arguments to CNI plugins.
type CNIConfig struct {
	Args map[string]string `hcl:"args,map"`
}

// VolumeRequest is a group's request for a volume under an alias.
type VolumeRequest struct {
	Name           string           `hcl:"name,label"`
	Type           string           `hcl:"type"`
	Source         string           `hcl:"source"`
	ReadOnly       bool             `hcl:"read_only"`
	Sticky         bool             `hcl:"sticky"`
	AccessMode     string           `hcl:"access_mode"`
	AttachmentMode string           `hcl:"attachment_mode"`
	MountOptions   *CSIMountOptions `hcl:"mount_options,block"`
	PerAlloc       bool             `hcl:"per_alloc"`
	// Create is how the job's registration makes the volume where there is none; an addition of Berth.
	Create *VolumeCreate `hcl:"create,block" json:",omitempty"`
}

// VolumeCreate is what a storage plugin is asked for when a job's registration makes a volume: the rest is said by the
// request that it belongs to. An addition of Berth.
type VolumeCreate struct {
	PluginID    string              `hcl:"plugin_id"`
	CapacityMin int64               `hcl:"capacity_min,bytes"` // 0: the plugin decides
	CapacityMax int64               `hcl:"capacity_max,bytes"` // 0: no limit
	Parameters  map[string]string   `hcl:"parameters,map"`
	Ownership   *CSIVolumeOwnership `hcl:"ownership,block" json:",omitempty"`
}

// VolumeMount shows a group's volume to a task.
type VolumeMount struct {
	Volume          *string `hcl:"volume"`
	Destination     *string `hcl:"destination"`
	ReadOnly        *bool   `hcl:"read_only"`
	PropagationMode *string `hcl:"propagation_mode"`
	SELinuxLabel    *string `hcl:"selinux_label"`
}
