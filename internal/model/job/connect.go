package job

import (
	"strings"
	"time"
)

// Connect makes a service a member of Consul's mesh: by its own doing, behind a proxy that runs beside its task, or as
// a gateway.
type Connect struct {
	Native         bool            `cbor:",omitempty"` // its task speaks the protocols of the mesh
	SidecarService *SidecarService `cbor:",omitempty"`
	SidecarTask    *SidecarTask    `cbor:",omitempty"` // what its author wants otherwise of the task of the proxy
	Gateway        *Gateway        `cbor:",omitempty"` // the service is a gateway
}

// SidecarService is the service of a proxy.
type SidecarService struct {
	Tags                   []string          `cbor:",omitempty"` // empty: those of the service behind it
	Port                   string            `cbor:",omitempty"` // the label of the port that the mesh reaches
	Proxy                  *Proxy            `cbor:",omitempty"`
	DisableDefaultTCPCheck bool              `cbor:",omitempty"`
	Meta                   map[string]string `cbor:",omitempty"`
}

// SidecarTask is laid over the task of a proxy when the servers add that to its group.
type SidecarTask struct {
	Name          string              `cbor:",omitempty"`
	Driver        string              `cbor:",omitempty"`
	User          string              `cbor:",omitempty"`
	Config        map[string]any      `cbor:",omitempty"`
	Env           map[string]string   `cbor:",omitempty"`
	Resources     *Resources          `cbor:",omitempty"`
	Meta          map[string]string   `cbor:",omitempty"`
	KillTimeout   time.Duration       `cbor:",omitempty"`
	LogConfig     *LogConfig          `cbor:",omitempty"`
	ShutdownDelay time.Duration       `cbor:",omitempty"`
	KillSignal    string              `cbor:",omitempty"`
	VolumeMounts  []*VolumeMount      `cbor:",omitempty"`
	Identities    []*WorkloadIdentity `cbor:",omitempty"`
}

// Proxy is what a proxy beside a task does.
type Proxy struct {
	LocalServiceAddress string         `cbor:",omitempty"` // empty: 127.0.0.1
	LocalServicePort    int            `cbor:",omitempty"` // 0: that of the service
	Expose              *Expose        `cbor:",omitempty"`
	Upstreams           []*Upstream    `cbor:",omitempty"`
	Config              map[string]any `cbor:",omitempty"` // for the proxy, as it is
}

// Expose lists what can be reached without the mesh.
type Expose struct{ Paths []*ExposePath }

// ExposePath is a path that can be reached without the mesh.
type ExposePath struct {
	Path          string
	Protocol      string `cbor:",omitempty"`
	LocalPathPort int
	ListenerPort  string // the label of a port
}

// Upstream is a service of the mesh that a task reaches by its proxy, at a port of its own.
type Upstream struct {
	DestinationName     string
	DestinationPeer     string         `cbor:",omitempty"`
	DestinationType     string         `cbor:",omitempty"` // service or prepared_query; empty: service
	LocalBindPort       int            `cbor:",omitempty"`
	Datacenter          string         `cbor:",omitempty"`
	LocalBindAddress    string         `cbor:",omitempty"` // empty: 127.0.0.1
	LocalBindSocketPath string         `cbor:",omitempty"` // a unix socket instead
	LocalBindSocketMode string         `cbor:",omitempty"`
	MeshGateway         *MeshGateway   `cbor:",omitempty"`
	Config              map[string]any `cbor:",omitempty"` // for the proxy, as it is
}

// Loopback is where a proxy listens for the tasks of its group, and reaches its service, unless the job says otherwise.
const Loopback = "127.0.0.1"

// MeshGateway says by which gateway traffic leaves.
type MeshGateway struct{ Mode string }

// TaskKind is what a task is to the mesh: a role and the service that it has it for, as "connect-proxy:web"; empty: it
// has none.
type TaskKind string

// Roles of tasks in the mesh.
const (
	RoleProxy       = "connect-proxy"
	RoleNative      = "connect-native"
	RoleIngress     = "connect-ingress"
	RoleTerminating = "connect-terminating"
	RoleMesh        = "connect-mesh"
)

// KindOf is the kind of a task that has a role for a service.
func KindOf(role, service string) TaskKind { return TaskKind(role + ":" + service) }

// Role is what the task does in the mesh; empty: it has no part in it.
func (k TaskKind) Role() string {
	switch role, _, _ := strings.Cut(string(k), ":"); role {
	case RoleProxy, RoleNative, RoleIngress, RoleTerminating, RoleMesh:
		return role
	}
	return ""
}

// Service is the name, as the job has it, of the service that the task has its role for.
func (k TaskKind) Service() string {
	_, name, _ := strings.Cut(string(k), ":")
	return name
}

// OnHost reports whether what the group has in the mesh is in the network of the host.
func (g *TaskGroup) OnHost() bool { return len(g.Networks) == 1 && g.Networks[0].onHost() }

// InMesh reports whether the task has a part in the mesh, and so a token of its service.
func (k TaskKind) InMesh() bool { return k.Role() != "" && k.Service() != "" }

// Proxies reports whether the task is a proxy, which gets its orders from Consul.
func (k TaskKind) Proxies() bool { return k.InMesh() && k.Role() != RoleNative }

// Role is what a task does for a service of the mesh; empty: the block asks for nothing.
func (c *Connect) Role() string {
	switch {
	case c == nil:
		return ""
	case c.Native:
		return RoleNative
	case c.SidecarService != nil:
		return RoleProxy
	case c.Gateway != nil:
		return c.Gateway.Role()
	}
	return ""
}

// Proxied reports whether a service of the mesh has a proxy, or is one: a task that gets its orders from Consul.
func (c *Connect) Proxied() bool { return c.Role() != "" && !c.Native }

// TaskFor is the task of the group that is of the kind which a service of the mesh asks for; nil: there is none.
func (g *TaskGroup) TaskFor(s *Service) *Task {
	role := s.Connect.Role()
	if role == "" {
		return nil
	}
	for _, t := range g.Tasks {
		if t.Kind == KindOf(role, s.Name) {
			return t
		}
	}
	return nil
}

// ServiceOf is the service of the mesh that a task has its role for; nil: there is none.
func (g *TaskGroup) ServiceOf(t *Task) *Service {
	if !t.Kind.InMesh() {
		return nil
	}
	for _, s := range g.AllServices() {
		if s.Name == t.Kind.Service() && s.Connect.Role() == t.Kind.Role() {
			return s
		}
	}
	return nil
}

// InMesh reports whether a service of the group is a member of the mesh.
func (g *TaskGroup) InMesh() bool {
	for _, s := range g.AllServices() {
		if s.Connect.Role() != "" {
			return true
		}
	}
	return false
}
