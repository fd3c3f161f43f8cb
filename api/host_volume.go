package api

// HostVolume is a volume made of a directory or device of one node.
type HostVolume struct {
	Namespace                 string                  `hcl:"namespace"`
	ID                        string                  `hcl:"id"`
	Name                      string                  `hcl:"name"`
	PluginID                  string                  `hcl:"plugin_id"`
	NodePool                  string                  `hcl:"node_pool"`
	NodeID                    string                  `hcl:"node_id"`
	Constraints               []*Constraint           `hcl:"constraint,block"`
	RequestedCapacityMinBytes int64                   `hcl:"capacity_min,bytes"`
	RequestedCapacityMaxBytes int64                   `hcl:"capacity_max,bytes"`
	CapacityBytes             int64                   `hcl:"capacity,bytes"`
	RequestedCapabilities     []*HostVolumeCapability `hcl:"capability,block"`
	Parameters                map[string]string       `hcl:"parameters,map"`
	HostPath                  string                  `hcl:"host_path"`
	State                     string
	CreateIndex               uint64
	CreateTime                int64 // Unix nanoseconds
	ModifyIndex               uint64
	ModifyTime                int64                 // Unix nanoseconds
	Allocations               []*AllocationListStub `json:",omitempty"`
}

// HostVolumeCapability is one way in which a host volume may be used.
type HostVolumeCapability struct {
	AttachmentMode string `hcl:"attachment_mode"`
	AccessMode     string `hcl:"access_mode"`
}
