package service_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/model/job"
)

// inMesh is an alloc with one service, behind a proxy that listens at a port of the alloc.
func inMesh(p *job.Proxy) (service.Source, *job.SidecarService) {
	s, web := inConsul()
	side := &job.SidecarService{Port: "connect-proxy-web", Proxy: p}
	web.PortLabel, web.Connect = "9001", &job.Connect{SidecarService: side}
	s.Alloc.Resources.Ports = append(s.Alloc.Resources.Ports,
		alloc.PortMapping{Label: side.Port, Value: 21000, HostIP: "10.0.0.7"},
		alloc.PortMapping{Label: "check", Value: 21001, To: 81, HostIP: "10.0.0.7"})
	g := s.Job.TaskGroups[0]
	g.Tasks = append(g.Tasks, &job.Task{Name: "p", Kind: job.KindOf(job.RoleProxy, "web")})
	return s, side
}

// TestAProxyIsAServiceOfItsOwn: given a service behind a sidecar, then Consul is to have both: the proxy where the mesh
// reaches it, with what it is to do, and checks that say whether it listens and whether the service behind it works.
func TestAProxyIsAServiceOfItsOwn(t *testing.T) {
	s, side := inMesh(&job.Proxy{
		Config: map[string]any{"local_connect_timeout_ms": 1},
		Upstreams: []*job.Upstream{{
			DestinationName: "db",
			LocalBindPort:   5000,
			MeshGateway:     &job.MeshGateway{Mode: "local"},
		}},
		Expose: &job.Expose{Paths: []*job.ExposePath{{Path: "/h", ListenerPort: "check"}}},
	})
	all, err := service.ForConsul(s)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	web, proxy := all[0].Service, all[1].Service
	if !all[0].Early() || !all[1].Early() {
		t.Error("they are registered when the alloc runs, and the proxy waits for them")
	}
	if proxy.ID != service.SidecarID(web.ID) || proxy.Name != "web-sidecar-proxy" || proxy.Kind != "connect-proxy" ||
		proxy.Address != "10.0.0.7" || proxy.Port != 21000 || web.Kind != "" || web.Proxy != nil {
		t.Errorf("%+v and %+v", web, proxy)
	}
	p := proxy.Proxy
	if p.DestinationServiceID != web.ID || p.DestinationServiceName != "web" || p.LocalServicePort != 9001 ||
		p.LocalServiceAddress != "127.0.0.1" {
		t.Errorf("%+v", p)
	}
	if !maps.Equal(p.Config, map[string]any{
		"bind_address":             "0.0.0.0",
		"bind_port":                21000,
		"local_connect_timeout_ms": 1,
	}) {
		t.Errorf("its config is %v", p.Config)
	}
	if u := p.Upstreams; len(u) != 1 || u[0].DestinationType != "service" || u[0].LocalBindPort != 5000 ||
		u[0].MeshGateway.Mode != "local" {
		t.Errorf("its upstreams are %+v", u)
	}
	if e := p.Expose.Paths; e[0] != (consul.ExposePath{
		Path:          "/h",
		Protocol:      "http",
		LocalPathPort: 9001,
		ListenerPort:  81,
	}) {
		t.Errorf("it exposes %+v", e)
	}
	checks := all[1].Checks
	if len(checks) != 2 || checks[0].TCP != "10.0.0.7:21000" || checks[1].Alias != web.ID {
		t.Errorf("its checks are %+v", checks)
	}
	side.DisableDefaultTCPCheck = true
	all, _ = service.ForConsul(s)
	if checks := all[1].Checks; len(checks) != 1 || checks[0].Alias == "" {
		t.Errorf("without the default check it has %+v", checks)
	}
	of, id, err := service.ProxyOf(s, s.Job.TaskGroups[0].Tasks[len(s.Job.TaskGroups[0].Tasks)-1])
	if err != nil || of != web.ID || id != proxy.ID {
		t.Errorf("its task has %s and %s, %v", of, id, err)
	}
}

// TestASidecarHasTheTagsOfItsServiceOrItsOwn: those that it inherits others may change where they may change those; its
// own it keeps.
func TestASidecarHasTheTagsOfItsServiceOrItsOwn(t *testing.T) {
	s, side := inMesh(nil)
	s.Job.TaskGroups[0].Services[0].EnableTagOverride = true
	all, err := service.ForConsul(s)
	if err != nil {
		t.Fatal(err)
	}
	web, proxy := all[0].Service, all[1].Service
	if !slices.Equal(web.Tags, proxy.Tags) || !proxy.EnableTagOverride {
		t.Errorf("inherited: %q, %v", proxy.Tags, proxy.EnableTagOverride)
	}
	side.Tags, side.Meta = []string{"i${NOMAD_ALLOC_INDEX}"}, map[string]string{"k": "${NOMAD_ALLOC_INDEX}"}
	all, _ = service.ForConsul(s)
	if proxy = all[1].Service; !slices.Equal(proxy.Tags, []string{"i2"}) || proxy.EnableTagOverride ||
		proxy.Meta["k"] != "2" {
		t.Errorf("its own: %+v", proxy)
	}
}

// TestAnotherWorkOfAProxyIsReasonToRegister: what an agent shows of a proxy has been merged with what operators say of
// all, and that is none; what the job says anew is.
func TestAnotherWorkOfAProxyIsReasonToRegister(t *testing.T) {
	made := func(p *job.Proxy) *consul.Service {
		s, _ := inMesh(p)
		all, err := service.ForConsul(s)
		if err != nil {
			t.Fatal(err)
		}
		return all[1].Service
	}
	want := made(nil)
	merged := *want
	merged.Proxy = &consul.Proxy{
		DestinationServiceName: want.Proxy.DestinationServiceName,
		DestinationServiceID:   want.Proxy.DestinationServiceID,
		Config:                 map[string]any{"protocol": "http", "bind_port": 21000.0},
	}
	if why := consul.Differs(want, &merged); why != "" {
		t.Errorf("what an operator says of all proxies is reason to register: %s", why)
	}
	for what, p := range map[string]*job.Proxy{
		"an upstream": {Upstreams: []*job.Upstream{{DestinationName: "db", LocalBindPort: 1}}},
		"a setting":   {Config: map[string]any{"a": "b"}},
		"a port":      {LocalServicePort: 7},
	} {
		if why := consul.Differs(made(p), want); why != "meta" {
			t.Errorf("%s is no reason to register: %q", what, why)
		}
	}
	other := *want
	other.Proxy = nil
	if consul.Differs(want, &other) != "proxy" {
		t.Error("a proxy that is none any more is left as it is")
	}
	native := *want
	native.Native = true
	if consul.Differs(&native, want) != "native" {
		t.Error("native is no reason to register")
	}
}

// TestAProxyThatIsNoneHasNoIds: a task without a service in the mesh has no ids there.
func TestAProxyThatIsNoneHasNoIds(t *testing.T) {
	s, _ := inMesh(nil)
	for _, kind := range []job.TaskKind{"", "connect-native:web", "connect-proxy:other"} {
		if _, _, err := service.ProxyOf(s, &job.Task{Kind: kind}); err == nil ||
			!strings.Contains(err.Error(), string(kind)) {
			t.Errorf("%q: %v", kind, err)
		}
	}
}
