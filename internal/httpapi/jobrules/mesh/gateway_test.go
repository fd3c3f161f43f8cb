package mesh_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi/jobrules/mesh"
	"berth/internal/model/job"
)

// gated is a group with a gateway.
func gated(gw *api.ConsulGateway) (*api.Job, *api.TaskGroup, *api.Service) {
	s := &api.Service{
		Name:      "in",
		Provider:  job.ProviderConsul,
		PortLabel: "8080",
		Connect:   &api.ConsulConnect{Gateway: gw},
	}
	g := &api.TaskGroup{
		Name:     "g",
		Networks: []*api.NetworkResource{{Mode: "bridge"}},
		Services: []*api.Service{s},
	}
	return &api.Job{TaskGroups: []*api.TaskGroup{g}}, g, s
}

func listening(protocol string, names ...string) *api.ConsulGateway {
	l := &api.ConsulIngressListener{Port: 8080, Protocol: protocol}
	for _, n := range names {
		l.Services = append(l.Services, &api.ConsulIngressService{Name: n})
	}
	return &api.ConsulGateway{Ingress: &api.ConsulIngressConfigEntry{Listeners: []*api.ConsulIngressListener{l}}}
}

func linked(s *api.ConsulLinkedService) *api.ConsulGateway {
	return &api.ConsulGateway{
		Terminating: &api.ConsulTerminatingConfigEntry{Services: []*api.ConsulLinkedService{s}},
	}
}

// TestAGatewayIsATaskOfItsGroup: of each kind, with its image and what it begins with, no part of another task's life,
// and, where it is known by no port, one of its own; a job that was shown and comes back stays as it is.
func TestAGatewayIsATaskOfItsGroup(t *testing.T) {
	for role, gw := range map[string]*api.ConsulGateway{
		job.RoleIngress:     listening("tcp", "web"),
		job.RoleTerminating: linked(&api.ConsulLinkedService{Name: "ext"}),
		job.RoleMesh:        {Mesh: &api.ConsulMeshConfigEntry{}},
	} {
		j, g, s := gated(gw)
		if role == job.RoleTerminating {
			s.PortLabel = ""
		}
		for range 2 {
			mesh.Inject(j, g)
			if wrong := mesh.Problems(j, g); len(wrong) > 0 || len(g.Tasks) != 1 {
				t.Fatalf("%s: %d tasks, %q", role, len(g.Tasks), wrong)
			}
		}
		task := g.Tasks[0]
		if task.Kind != role+":in" || task.Name != role+"-in" || task.Lifecycle != nil || task.Driver != "docker" ||
			task.Config["image"] != "${meta.connect.gateway_image}" {
			t.Errorf("%s: %+v", role, task)
		}
		if !slices.ContainsFunc(task.Constraints, func(c *api.Constraint) bool {
			return c.LTarget == "${attr.consul.grpc}"
		}) {
			t.Errorf("%s: it asks for no way to Consul: %v", role, task.Constraints)
		}
		if own := len(g.Networks[0].DynamicPorts); role == job.RoleTerminating &&
			(own != 1 || s.PortLabel != "connect-terminating-in") {
			t.Errorf("%s: %d ports, service at %q", role, own, s.PortLabel)
		}
	}
}

// TestAGatewayInTheHostsNetworkIsThere: its container has that network, too, and a port of its own is no other within.
func TestAGatewayInTheHostsNetworkIsThere(t *testing.T) {
	for _, mode := range []string{"", "host"} {
		for driver, config := range map[string]map[string]any{
			"docker": {"network_mode": "host"},
			"exec":   {"command": "${attr.envoy.program}"},
		} {
			j, g, s := gated(linked(&api.ConsulLinkedService{Name: "ext"}))
			g.Networks[0].Mode, s.PortLabel = mode, ""
			s.Connect.SidecarTask = &api.SidecarTask{Driver: driver}
			for range 2 {
				mesh.Inject(j, g)
				if wrong := mesh.Problems(j, g); len(wrong) > 0 || len(g.Tasks) != 1 {
					t.Fatalf("%q: %d tasks, %q", mode, len(g.Tasks), wrong)
				}
			}
			for member, want := range config {
				if got := g.Tasks[0].Config[member]; got != want {
					t.Errorf("%q, %s: its %s is %v, not %v", mode, driver, member, got, want)
				}
			}
			if ports := g.Networks[0].DynamicPorts; len(ports) != 1 || ports[0].To != 0 {
				t.Errorf("%q: %+v", mode, ports)
			}
		}
	}
}

// TestGatewaysThatCannotWorkAreRefused: each with the way out.
func TestGatewaysThatCannotWorkAreRefused(t *testing.T) {
	twice := listening("tcp", "web")
	twice.Ingress.Listeners = append(twice.Ingress.Listeners, twice.Ingress.Listeners[0])
	hosts := listening("tcp", "web")
	hosts.Ingress.Listeners[0].Services[0].Hosts = []string{"x"}
	all := listening("http", "*")
	all.Ingress.Listeners[0].Services[0].Hosts = []string{"x"}
	bound := func(p *api.ConsulGatewayProxy) *api.ConsulGateway {
		gw := listening("tcp", "web")
		gw.Proxy = p
		return gw
	}
	away := listening("tcp", "web")
	away.Ingress.Listeners[0].Port = 0
	both := listening("tcp", "web")
	both.Mesh = &api.ConsulMeshConfigEntry{}
	for says, gw := range map[string]*api.ConsulGateway{
		"one of ingress, terminating and mesh":    {},
		"terminating and mesh; write one of them": both,
		"needs a listener":                        {Ingress: &api.ConsulIngressConfigEntry{}},
		"port 0 is none":                          away,
		"is that of two":                          twice,
		"protocol must be tcp, http":              listening("udp", "web"),
		"it has 0":                                listening("http"),
		"it has 2":                                listening("tcp", "a", "b"),
		"a service needs name":                    listening("http", ""),
		"the service * is for protocols of HTTP":  listening("tcp", "*"),
		"hosts and headers are of HTTP":           hosts,
		"the service * has no hosts":              all,
		"needs a service":                         {Terminating: &api.ConsulTerminatingConfigEntry{}},
		"terminating: a service needs name":       linked(&api.ConsulLinkedService{}),
		"belong together":                         linked(&api.ConsulLinkedService{Name: "x", CertFile: "c"}),
		"believed by ca_file":                     linked(&api.ConsulLinkedService{Name: "x", SNI: "s"}),
		"must be STRICT_DNS": bound(
			&api.ConsulGatewayProxy{EnvoyDNSDiscoveryType: "x"}),
		`envoy_gateway_bind_addresses "a"`: bound(&api.ConsulGatewayProxy{
			EnvoyGatewayBindAddresses: map[string]*api.ConsulGatewayBindAddress{"a": {Port: 1}},
		}),
		"is below zero": bound(&api.ConsulGatewayProxy{ConnectTimeout: new(-time.Second)}),
	} {
		j, g, _ := gated(gw)
		mesh.Inject(j, g)
		if wrong := strings.Join(mesh.Problems(j, g), "\n"); !strings.Contains(wrong, says) {
			t.Errorf("it says %q, want %q", wrong, says)
		}
	}
	for says, change := range map[string]func(*api.TaskGroup, *api.Service){
		"cannot be a gateway": func(g *api.TaskGroup, _ *api.Service) {
			g.Meta = map[string]string{"connect.proxy": "builtin"}
		},
		"it listens nowhere": func(g *api.TaskGroup, s *api.Service) {
			g.Networks[0].Mode = "host"
			s.Connect.Gateway.Proxy = &api.ConsulGatewayProxy{EnvoyGatewayNoDefaultBind: true}
		},
		"is reached at its port":  func(_ *api.TaskGroup, s *api.Service) { s.PortLabel = "" },
		"write mode = \"bridge\"": func(g *api.TaskGroup, _ *api.Service) { g.Networks[0].Mode = "none" },
		"and has 2 of them":       func(_ *api.TaskGroup, s *api.Service) { s.Connect.Native = true },
	} {
		j, g, s := gated(listening("tcp", "web"))
		change(g, s)
		mesh.Inject(j, g)
		if wrong := strings.Join(mesh.Problems(j, g), "\n"); !strings.Contains(wrong, says) {
			t.Errorf("it says %q, want %q", wrong, says)
		}
	}
}
