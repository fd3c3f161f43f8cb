package consul

import (
	"encoding/json"
	"maps"
)

// Kinds of services that are proxies: beside others, and gateways.
const (
	KindProxy       = "connect-proxy"
	KindIngress     = "ingress-gateway"
	KindTerminating = "terminating-gateway"
	KindMesh        = "mesh-gateway"
)

// metaProxy is the member of a proxy's meta that shows what it was registered with: what an agent shows of a proxy has
// been merged with what operators say of all, and so it cannot be compared.
const metaProxy = "berth-proxy"

// Attributes of nodes that proxies need.
const (
	AttributeDatacenter = "consul.datacenter"

	AttributeGRPC    = "consul.grpc"    // the port at which Consul tells Envoy what to do
	AttributeProgram = "consul.program" // the path of Consul's own program
	AttributeEnvoy   = "envoy.program"  // the path of Envoy's

	AttributeEnvoyVersion = "consul.envoy" // the newest version of Envoy that Consul knows
)

// EnvoyVersion is the name within ${…} of that version, for images of proxies.
const EnvoyVersion = "NOMAD_envoy_version"

// The commands of proxies that are programs of the node.
const (
	BuiltinProgram = "${attr." + AttributeProgram + "}"
	EnvoyProgram   = "${attr." + AttributeEnvoy + "}"
)

// What a proxy's task finds: the variable with the id of the service behind it, and in its secrets directory the files.
const (
	EnvSidecarFor = "CONSUL_SIDECAR_FOR"
	BootstrapFile = "envoy_bootstrap.json"
	HTTPSocket    = "consul.sock"
	GRPCSocket    = "grpc.sock"
)

// Proxy is what a proxy of the mesh does, as Consul writes it.
type Proxy struct {
	DestinationServiceName string         `json:",omitempty"`
	DestinationServiceID   string         `json:",omitempty"`
	LocalServiceAddress    string         `json:",omitempty"`
	LocalServicePort       int            `json:",omitempty"`
	Config                 map[string]any `json:",omitempty"`
	Upstreams              []Upstream     `json:",omitempty"`
	Expose                 *Expose        `json:",omitempty"`
}

// Upstream is a service that a proxy reaches for its own.
type Upstream struct {
	DestinationType     string         `json:",omitempty"`
	DestinationName     string         `json:",omitempty"`
	DestinationPeer     string         `json:",omitempty"`
	Datacenter          string         `json:",omitempty"`
	LocalBindAddress    string         `json:",omitempty"`
	LocalBindPort       int            `json:",omitempty"`
	LocalBindSocketPath string         `json:",omitempty"`
	LocalBindSocketMode string         `json:",omitempty"`
	MeshGateway         *MeshGateway   `json:",omitempty"`
	Config              map[string]any `json:",omitempty"`
}

// MeshGateway says by which gateway traffic leaves.
type MeshGateway struct{ Mode string }

// Expose lists what a proxy lets through past the mesh.
type Expose struct{ Paths []ExposePath }

// ExposePath is a path that a proxy lets through.
type ExposePath struct {
	Path          string
	Protocol      string `json:",omitempty"`
	LocalPathPort int
	ListenerPort  int
}

// Marked adds to the meta of a proxy what it is registered with.
func Marked(meta map[string]string, p *Proxy) (map[string]string, error) {
	text, err := json.Marshal(p) // maps are written in the order of their keys
	if err != nil {
		return nil, err
	}
	out := map[string]string{metaProxy: digest([]string{string(text)})[:16]}
	maps.Copy(out, meta)
	return out, nil
}

// stands reports whether what an agent shows of a proxy still is about the same service; the rest shows metaProxy.
func (p *Proxy) stands(have *Proxy) bool {
	if p == nil || have == nil {
		return p == nil && have == nil
	}
	return p.DestinationServiceID == have.DestinationServiceID &&
		p.DestinationServiceName == have.DestinationServiceName
}
