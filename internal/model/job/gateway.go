package job

import "time"

// Gateway makes a service a gateway of Consul's mesh, of one kind: its task lets traffic in, out, or from mesh to mesh.
type Gateway struct {
	Proxy       *GatewayProxy       `cbor:",omitempty"`
	Ingress     *IngressGateway     `cbor:",omitempty"`
	Terminating *TerminatingGateway `cbor:",omitempty"`
	Mesh        *BetweenMeshes      `cbor:",omitempty"`
}

// GatewayProxy is how the proxy of a gateway works.
type GatewayProxy struct {
	ConnectTimeout                  time.Duration `cbor:",omitempty"` // 0: five seconds
	EnvoyGatewayBindTaggedAddresses bool          `cbor:",omitempty"`
	// EnvoyGatewayBindAddresses are where it listens, by names of anybody's choice; empty: at its service's port.
	EnvoyGatewayBindAddresses map[string]*BindAddress `cbor:",omitempty"`
	EnvoyGatewayNoDefaultBind bool                    `cbor:",omitempty"`
	EnvoyDNSDiscoveryType     string                  `cbor:",omitempty"`
	Config                    map[string]any          `cbor:",omitempty"` // for the proxy, as it is
}

// BindAddress is an address that a gateway listens on.
type BindAddress struct {
	Name    string `cbor:",omitempty"`
	Address string
	Port    int
}

// IngressGateway lets traffic into the mesh.
type IngressGateway struct {
	TLS       *GatewayTLS        `cbor:",omitempty"`
	Listeners []*IngressListener `cbor:",omitempty"`
}

// GatewayTLS is how an ingress gateway speaks TLS with those outside.
type GatewayTLS struct {
	Enabled       bool        `cbor:",omitempty"`
	TLSMinVersion string      `cbor:",omitempty"`
	TLSMaxVersion string      `cbor:",omitempty"`
	CipherSuites  []string    `cbor:",omitempty"`
	SDS           *GatewaySDS `cbor:",omitempty"`
}

// GatewaySDS names a certificate of a service that hands them out.
type GatewaySDS struct{ ClusterName, CertResource string }

// IngressListener is a port of an ingress gateway.
type IngressListener struct {
	Port     int
	Protocol string            // tcp, http, http2 or grpc
	TLS      *GatewayTLS       `cbor:",omitempty"`
	Services []*IngressService `cbor:",omitempty"`
}

// IngressService is a service that is reached by a listener.
type IngressService struct {
	Name                  string           // *: all, of which the host tells which
	Hosts                 []string         `cbor:",omitempty"`
	TLS                   *GatewayTLS      `cbor:",omitempty"`
	RequestHeaders        *HeaderModifiers `cbor:",omitempty"`
	ResponseHeaders       *HeaderModifiers `cbor:",omitempty"`
	MaxConnections        uint32           `cbor:",omitempty"` // 0: as Consul has it
	MaxPendingRequests    uint32           `cbor:",omitempty"`
	MaxConcurrentRequests uint32           `cbor:",omitempty"`
}

// HeaderModifiers change headers of HTTP on their way.
type HeaderModifiers struct {
	Add    map[string]string `cbor:",omitempty"`
	Set    map[string]string `cbor:",omitempty"`
	Remove []string          `cbor:",omitempty"`
}

// TerminatingGateway lets traffic out of the mesh, to services that have no part in it.
type TerminatingGateway struct {
	Services []*LinkedService `cbor:",omitempty"`
}

// LinkedService is such a service. The files are those of the gateway's task.
type LinkedService struct {
	Name     string
	CAFile   string `cbor:",omitempty"`
	CertFile string `cbor:",omitempty"`
	KeyFile  string `cbor:",omitempty"`
	SNI      string `cbor:",omitempty"`
}

// BetweenMeshes makes a gateway one from mesh to mesh; there is nothing to say of it.
type BetweenMeshes struct{}

// Role is what the task of a gateway does; empty: it is of no kind.
func (g *Gateway) Role() string {
	switch {
	case g.Ingress != nil:
		return RoleIngress
	case g.Terminating != nil:
		return RoleTerminating
	case g.Mesh != nil:
		return RoleMesh
	}
	return ""
}
