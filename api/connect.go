package api

import "time"

// ConsulConnect makes a service a member of the mesh.
type ConsulConnect struct {
	Native         bool                  `hcl:"native"`
	Gateway        *ConsulGateway        `hcl:"gateway,block"`
	SidecarService *ConsulSidecarService `hcl:"sidecar_service,block"`
	SidecarTask    *SidecarTask          `hcl:"sidecar_task,block"`
}

// ConsulSidecarService is the service of a generated proxy.
type ConsulSidecarService struct {
	Tags                   []string          `hcl:"tags"`
	Port                   string            `hcl:"port"`
	Proxy                  *ConsulProxy      `hcl:"proxy,block"`
	DisableDefaultTCPCheck bool              `hcl:"disable_default_tcp_check"`
	Meta                   map[string]string `hcl:"meta,map"`
}

// SidecarTask changes the generated proxy's task.
type SidecarTask struct {
	Name          string              `hcl:"name"`
	Driver        string              `hcl:"driver"`
	User          string              `hcl:"user"`
	Config        map[string]any      `hcl:"config,any"`
	Env           map[string]string   `hcl:"env,map"`
	Resources     *Resources          `hcl:"resources,block"`
	Meta          map[string]string   `hcl:"meta,map"`
	KillTimeout   *time.Duration      `hcl:"kill_timeout"`
	LogConfig     *LogConfig          `hcl:"logs,block"`
	ShutdownDelay *time.Duration      `hcl:"shutdown_delay"`
	KillSignal    string              `hcl:"kill_signal"`
	VolumeMounts  []*VolumeMount      `hcl:"volume_mount,block"`
	Identities    []*WorkloadIdentity `hcl:"identity,block"`
}

// ConsulProxy configures a sidecar proxy.
type ConsulProxy struct {
	LocalServiceAddress string                  `hcl:"local_service_address"`
	LocalServicePort    int                     `hcl:"local_service_port"`
	Expose              *ConsulExposeConfig     `hcl:"expose,block"`
	ExposeConfig        *ConsulExposeConfig     // older name of Expose
	Upstreams           []*ConsulUpstream       `hcl:"upstreams,block"`
	TransparentProxy    *ConsulTransparentProxy `hcl:"transparent_proxy,block"`
	Config              map[string]any          `hcl:"config,any"`
}

// ConsulTransparentProxy redirects a group's traffic through its proxy.
type ConsulTransparentProxy struct {
	UID                  string   `hcl:"uid"`
	OutboundPort         uint16   `hcl:"outbound_port"`
	ExcludeInboundPorts  []string `hcl:"exclude_inbound_ports"`
	ExcludeOutboundPorts []uint16 `hcl:"exclude_outbound_ports"`
	ExcludeOutboundCIDRs []string `hcl:"exclude_outbound_cidrs"`
	ExcludeUIDs          []string `hcl:"exclude_uids"`
	NoDNS                bool     `hcl:"no_dns"`
}

// ConsulExposeConfig lists paths that are reachable without the mesh.
type ConsulExposeConfig struct {
	Paths []*ConsulExposePath `hcl:"path,block"`
	Path  []*ConsulExposePath // older name of Paths
}

// ConsulExposePath is one path reachable without the mesh.
type ConsulExposePath struct {
	Path          string `hcl:"path"`
	Protocol      string `hcl:"protocol"`
	LocalPathPort int    `hcl:"local_path_port"`
	ListenerPort  string `hcl:"listener_port"`
}

// ConsulUpstream is a service that the proxy reaches for its task.
type ConsulUpstream struct {
	DestinationName      string             `hcl:"destination_name"`
	DestinationNamespace string             `hcl:"destination_namespace"`
	DestinationPeer      string             `hcl:"destination_peer"`
	DestinationPartition string             `hcl:"destination_partition"`
	DestinationType      string             `hcl:"destination_type"`
	LocalBindPort        int                `hcl:"local_bind_port"`
	Datacenter           string             `hcl:"datacenter"`
	LocalBindAddress     string             `hcl:"local_bind_address"`
	LocalBindSocketPath  string             `hcl:"local_bind_socket_path"`
	LocalBindSocketMode  string             `hcl:"local_bind_socket_mode"`
	MeshGateway          *ConsulMeshGateway `hcl:"mesh_gateway,block"`
	Config               map[string]any     `hcl:"config,any"`
}

// ConsulMeshGateway says through which mesh gateway traffic leaves.
type ConsulMeshGateway struct {
	Mode string `hcl:"mode"`
}

// ConsulGateway is a gateway of the mesh.
type ConsulGateway struct {
	Proxy       *ConsulGatewayProxy           `hcl:"proxy,block"`
	Ingress     *ConsulIngressConfigEntry     `hcl:"ingress,block"`
	Terminating *ConsulTerminatingConfigEntry `hcl:"terminating,block"`
	Mesh        *ConsulMeshConfigEntry        `hcl:"mesh,block"`
}

// ConsulGatewayProxy configures a gateway's proxy.
type ConsulGatewayProxy struct {
	ConnectTimeout                  *time.Duration                       `hcl:"connect_timeout"`
	EnvoyGatewayBindTaggedAddresses bool                                 `hcl:"envoy_gateway_bind_tagged_addresses"`
	EnvoyGatewayBindAddresses       map[string]*ConsulGatewayBindAddress `hcl:"envoy_gateway_bind_addresses,block"`
	EnvoyGatewayNoDefaultBind       bool                                 `hcl:"envoy_gateway_no_default_bind"`
	EnvoyDNSDiscoveryType           string                               `hcl:"envoy_dns_discovery_type"`
	Config                          map[string]any                       `hcl:"config,any"`
}

// ConsulGatewayBindAddress is an address that a gateway listens on.
type ConsulGatewayBindAddress struct {
	Name    string `hcl:"name,label"`
	Address string `hcl:"address"`
	Port    int    `hcl:"port"`
}

// ConsulGatewayTLSConfig is the TLS configuration of a gateway.
type ConsulGatewayTLSConfig struct {
	Enabled       bool              `hcl:"enabled"`
	TLSMinVersion string            `hcl:"tls_min_version"`
	TLSMaxVersion string            `hcl:"tls_max_version"`
	CipherSuites  []string          `hcl:"cipher_suites"`
	SDS           *ConsulGatewaySDS `hcl:"sds,block"`
}

// ConsulGatewaySDS names a certificate of a secret discovery service.
type ConsulGatewaySDS struct {
	ClusterName  string `hcl:"cluster_name"`
	CertResource string `hcl:"cert_resource"`
}

// ConsulIngressConfigEntry lets traffic into the mesh.
type ConsulIngressConfigEntry struct {
	TLS       *ConsulGatewayTLSConfig  `hcl:"tls,block"`
	Listeners []*ConsulIngressListener `hcl:"listener,block"`
}

// ConsulIngressListener is one port of an ingress gateway.
type ConsulIngressListener struct {
	Port     int                     `hcl:"port"`
	Protocol string                  `hcl:"protocol"`
	TLS      *ConsulGatewayTLSConfig `hcl:"tls,block"`
	Services []*ConsulIngressService `hcl:"service,block"`
}

// ConsulIngressService is a service behind an ingress listener.
type ConsulIngressService struct {
	Name                  string                     `hcl:"name"`
	Hosts                 []string                   `hcl:"hosts"`
	TLS                   *ConsulGatewayTLSConfig    `hcl:"tls,block"`
	RequestHeaders        *ConsulHTTPHeaderModifiers `hcl:"request_headers,block"`
	ResponseHeaders       *ConsulHTTPHeaderModifiers `hcl:"response_headers,block"`
	MaxConnections        *uint32                    `hcl:"max_connections"`
	MaxPendingRequests    *uint32                    `hcl:"max_pending_requests"`
	MaxConcurrentRequests *uint32                    `hcl:"max_concurrent_requests"`
}

// ConsulHTTPHeaderModifiers changes headers on their way.
type ConsulHTTPHeaderModifiers struct {
	Add    map[string]string `hcl:"add,map"`
	Set    map[string]string `hcl:"set,map"`
	Remove []string          `hcl:"remove"`
}

// ConsulTerminatingConfigEntry lets traffic out of the mesh.
type ConsulTerminatingConfigEntry struct {
	Services []*ConsulLinkedService `hcl:"service,block"`
}

// ConsulLinkedService is a service outside of the mesh.
type ConsulLinkedService struct {
	Name     string `hcl:"name"`
	CAFile   string `hcl:"ca_file"`
	CertFile string `hcl:"cert_file"`
	KeyFile  string `hcl:"key_file"`
	SNI      string `hcl:"sni"`
}

// ConsulMeshConfigEntry makes a gateway between meshes; it has no members.
type ConsulMeshConfigEntry struct{}
