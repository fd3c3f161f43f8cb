package agent

import (
	"time"

	"berth/internal/agent/downloads"
	"berth/internal/agent/nodenetwork"
	"berth/internal/agent/retention"
)

// Ports on which the agent listens.
type Ports struct {
	HTTP int `hcl:"http"`
	RPC  int `hcl:"rpc"` // of addresses rpc
}

// Addresses on which the agent listens.
type Addresses struct {
	RPC string `hcl:"rpc"` // of the server's TLS port, for nodes on other machines; empty: there is none
}

// Advertise says where others reach this agent, if it is not where it listens.
type Advertise struct {
	RPC string `hcl:"rpc"` // the server's TLS port
}

// ServerJoin says how a server comes into a cluster that there is.
type ServerJoin struct {
	RetryJoin     []string       `hcl:"retry_join"`     // addresses of TLS ports of its servers
	RetryInterval *time.Duration `hcl:"retry_interval"` // between tries; not set: from 0.5 s up to 30 s
	RetryMax      int            `hcl:"retry_max"`      // tries, after which the agent ends; 0: it goes on
}

// ServerBlock configures the server half.
type ServerBlock struct {
	retention.Settings

	Enabled bool `hcl:"enabled"`
	// BootstrapExpect is how many servers the cluster is to have: with fewer it works, and says so.
	BootstrapExpect int `hcl:"bootstrap_expect"`
	// ServerJoin: not there, the server begins a cluster, unless it has joined one.
	ServerJoin *ServerJoin `hcl:"server_join,block"`
	// JoinTokenFile holds the token by which the server joins; it is read until it has.
	JoinTokenFile string `hcl:"join_token_file"`
	// CertificateLifetime is how long the certificates that the server issues are good; not set: trust.Lifetime.
	CertificateLifetime *time.Duration `hcl:"certificate_lifetime"`
	// OIDCIssuer is what identities of tasks name as who has signed them: where others find the keys, beneath it.
	OIDCIssuer string `hcl:"oidc_issuer"`
	// VolumeListInterval is how often what providers list is held against the records; not set: ten minutes.
	VolumeListInterval *time.Duration `hcl:"volume_list_interval"`
	// AlphaGetVolume has plugins that list no volumes asked about each: a call that the specification calls alpha.
	AlphaGetVolume bool `hcl:"alpha_get_volume"`
}

// ClientBlock configures the node half.
type ClientBlock struct {
	Enabled     bool              `hcl:"enabled"`
	NodeClass   string            `hcl:"node_class"`
	NodePool    string            `hcl:"node_pool"`
	Meta        map[string]string `hcl:"meta,map"`
	HostVolumes []*HostVolume     `hcl:"host_volume,block"`
	Reserved    *Reserved         `hcl:"reserved,block"`
	// NetworkInterface is the link whose address is the node's default one for ports; empty: loopback.
	NetworkInterface string                     `hcl:"network_interface"`
	HostNetworks     []*nodenetwork.HostNetwork `hcl:"host_network,block"`
	// The bridge of allocations: names and subnets, empty: the default (of IPv6 none).
	BridgeName    string `hcl:"bridge_network_name"`
	BridgeSubnet  string `hcl:"bridge_network_subnet"`
	BridgeSubnet6 string `hcl:"bridge_network_subnet_ipv6"`
	BridgeHairpin *bool  `hcl:"bridge_network_hairpin_mode"`
	// CNIPath are directories of CNI plugins, separated by colons, CNIDir that of their configurations.
	CNIPath     string `hcl:"cni_path"`
	CNIDir      string `hcl:"cni_config_dir"`
	CPUTotal    int    `hcl:"cpu_total_compute"`
	MemoryTotal int    `hcl:"memory_total_mb"`
	MinPort     int    `hcl:"min_dynamic_port"`
	MaxPort     int    `hcl:"max_dynamic_port"`
	// Servers are addresses of servers' TLS ports, for a node whose agent has no server.
	Servers []string `hcl:"servers"`
	// JoinTokenFile holds the token by which the node joins; it is read until the node has joined.
	JoinTokenFile string `hcl:"join_token_file"`
	// LocalCSI runs the bundled storage plugin as a system job; not set: with -dev only.
	LocalCSI *bool `hcl:"local_csi"`
	// EphemeralDisk says how tasks are held to the disk that their groups ask for; not set: by measuring.
	EphemeralDisk *EphemeralDisk `hcl:"ephemeral_disk,block"`
	// Artifact says how the artifacts of tasks are fetched.
	Artifact *downloads.Block `hcl:"artifact,block"`
	// VolumeStatsInterval is how often the volumes in use on the node are measured; not set: a minute.
	VolumeStatsInterval *time.Duration `hcl:"volume_stats_interval"`
	// MaxKillTimeout caps kill_timeout of the tasks; not set: it is the jobs' to say.
	MaxKillTimeout *time.Duration `hcl:"max_kill_timeout"`
	// MaxMemoryMax (MiB) caps memory_max of the tasks, MaxPIDs pids; not set: it is the jobs' to say.
	MaxMemoryMax *int `hcl:"max_memory_max"`
	MaxPIDs      *int `hcl:"max_pids"`
	// CrashWindow is how long the agent has to live on after it has taken up an alloc, for a crash of its own not to be
	// counted against that; 0: crashes are counted against nobody.
	CrashWindow *time.Duration `hcl:"crash_window"`
}

// EphemeralDisk configures how tasks are held to the disk that their groups ask for.
type EphemeralDisk struct {
	Enforce string `hcl:"enforce"` // sweep (also when empty), image, quota, or none
}

// Ways in which tasks are held to their disks.
const (
	enforceSweep = "sweep"
	enforceImage = "image"
	enforceQuota = "quota"
	enforceNone  = "none"
)

// HostVolume is a directory of the node that jobs may mount by name.
type HostVolume struct {
	Name     string `hcl:"name,label"`
	Path     string `hcl:"path"`
	ReadOnly bool   `hcl:"read_only"`
}

// Reserved is kept back from allocations.
type Reserved struct {
	CPU      int    `hcl:"cpu"`
	MemoryMB int    `hcl:"memory"`
	DiskMB   int    `hcl:"disk"`
	Ports    string `hcl:"reserved_ports"`
	Cores    string `hcl:"cores"` // as the kernel lists them
}

// KeyringBlock says who opens the secrets in the servers' state beside the servers.
type KeyringBlock struct {
	// Recovery is a list of public keys, X25519 in base64, or the word none.
	Recovery any `hcl:"recovery"`
}
