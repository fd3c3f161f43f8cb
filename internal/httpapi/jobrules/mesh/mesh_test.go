package mesh_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi/jobrules/mesh"
)

// behind is a group with a service behind a sidecar.
func behind(proxy *api.ConsulProxy) (*api.Job, *api.TaskGroup, *api.Service) {
	s := &api.Service{
		Name:      "web",
		Provider:  "consul",
		PortLabel: "9001",
		Connect:   &api.ConsulConnect{SidecarService: &api.ConsulSidecarService{Proxy: proxy}},
	}
	g := &api.TaskGroup{
		Name:     "g",
		Networks: []*api.NetworkResource{{Mode: "bridge"}},
		Tasks:    []*api.Task{{Name: "app", Driver: "exec"}},
		Services: []*api.Service{s},
	}
	return &api.Job{TaskGroups: []*api.TaskGroup{g}}, g, s
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestAServiceBehindASidecarGetsItsTaskAndPort: given a service with a sidecar, then its group has the task of a proxy
// that clients of this API expect, and its port; and a job that was shown and comes back stays as it is.
func TestAServiceBehindASidecarGetsItsTaskAndPort(t *testing.T) {
	j, g, s := behind(nil)
	mesh.Inject(j, g)
	if len(g.Tasks) != 2 {
		t.Fatalf("%d tasks", len(g.Tasks))
	}
	p := g.Tasks[1]
	if p.Name != "connect-proxy-web" || p.Kind != "connect-proxy:web" || p.Driver != "docker" ||
		p.Lifecycle.Hook != "prestart" || !p.Lifecycle.Sidecar || p.ShutdownDelay != 5*time.Second ||
		*p.Resources.CPU != 250 || *p.Resources.MemoryMB != 128 || *p.LogConfig.MaxFiles != 2 ||
		*p.LogConfig.MaxFileSizeMB != 2 {
		t.Errorf("the task is %s", text(t, p))
	}
	config := text(t, p.Config)
	for _, part := range []string{"${meta.connect.sidecar_image}", "${NOMAD_SECRETS_DIR}/envoy_bootstrap.json",
		"${meta.connect.log_level}", "${meta.connect.proxy_concurrency}", "--disable-hot-restart"} {
		if !strings.Contains(config, part) {
			t.Errorf("its config lacks %s: %s", part, config)
		}
	}
	if got := text(t, p.Constraints); !strings.Contains(got, "attr.consul.version") ||
		!strings.Contains(got, "attr.consul.grpc") {
		t.Errorf("its constraints are %s", got)
	}
	port := api.Port{Label: "connect-proxy-web", To: -1}
	if got := g.Networks[0].DynamicPorts; !slices.Equal(got, []api.Port{port}) ||
		s.Connect.SidecarService.Port != port.Label {
		t.Errorf("the ports are %+v, the sidecar's %q", got, s.Connect.SidecarService.Port)
	}
	before := text(t, j)
	mesh.Inject(j, g)
	if after := text(t, j); after != before {
		t.Errorf("another time makes another job:\n%s\n%s", before, after)
	}
	if wrong := mesh.Problems(j, g); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// TestAnAuthorsWordsAboutAProxyAreLaidOverIt: what sidecar_task says counts, and what it leaves out stays; zeros, which
// a job that was shown has in place of nothing, say nothing.
func TestAnAuthorsWordsAboutAProxyAreLaidOverIt(t *testing.T) {
	j, g, s := behind(nil)
	s.Connect.SidecarTask = &api.SidecarTask{
		Name:          "side",
		Driver:        "raw_exec",
		User:          "u",
		Env:           map[string]string{"A": "b"},
		Resources:     &api.Resources{CPU: new(0), MemoryMB: new(64)},
		KillTimeout:   new(7 * time.Second),
		ShutdownDelay: new(time.Duration(0)),
		LogConfig:     &api.LogConfig{MaxFiles: new(3)},
	}
	mesh.Inject(j, g)
	p := g.Tasks[1]
	if p.Name != "side" || p.Driver != "raw_exec" || p.User != "u" || p.Env["A"] != "b" || *p.Resources.CPU != 250 ||
		*p.Resources.MemoryMB != 64 || *p.KillTimeout != 7*time.Second || p.ShutdownDelay != 5*time.Second ||
		*p.LogConfig.MaxFiles != 3 || *p.LogConfig.MaxFileSizeMB != 2 {
		t.Error(text(t, p))
	}
	if p.Config["command"] != "${attr.envoy.program}" ||
		!strings.Contains(text(t, p.Constraints), "attr.envoy.program") {
		t.Errorf("an Envoy of the node is run by %s on %s", text(t, p.Config), text(t, p.Constraints))
	}
}

// TestAnAuthorsConfigTakesThePlaceOfAllOfIt: and meta and signal are those that the author wrote.
func TestAnAuthorsConfigTakesThePlaceOfAllOfIt(t *testing.T) {
	j, g, s := behind(nil)
	s.Connect.SidecarTask = &api.SidecarTask{
		Driver:     "exec",
		Config:     map[string]any{"command": "/opt/envoy"},
		Meta:       map[string]string{"of": "author"},
		KillSignal: "SIGQUIT",
	}
	mesh.Inject(j, g)
	p := g.Tasks[1]
	if len(p.Config) != 1 || p.Config["command"] != "/opt/envoy" || p.Meta["of"] != "author" ||
		p.KillSignal != "SIGQUIT" {
		t.Error(text(t, p))
	}
}

// TestTheBuiltInProxyIsAskedForByMeta: of the group or the job, and it runs by Consul's own program.
func TestTheBuiltInProxyIsAskedForByMeta(t *testing.T) {
	for driver, want := range map[string]string{"exec": "exec", "raw_exec": "raw_exec", "docker": "exec"} {
		j, g, _ := behind(nil)
		j.Meta = map[string]string{"connect.proxy": "builtin"}
		g.Tasks[0].Driver = driver
		mesh.Inject(j, g)
		p := g.Tasks[1]
		if p.Driver != want || p.Config["command"] != "${attr.consul.program}" ||
			!strings.Contains(text(t, p.Config), "0.0.0.0:${NOMAD_PORT_connect_proxy_web}") ||
			strings.Contains(text(t, p.Config), "token") ||
			!strings.Contains(text(t, p.Constraints), "attr.consul.program") ||
			strings.Contains(text(t, p.Constraints), "attr.consul.grpc") {
			t.Errorf("beside %s: %s", driver, text(t, p))
		}
	}
}

// TestTheBuiltInProxyHasAllOfItsWorkByArguments: where it listens, what is behind it and which upstreams it has; others
// of a job that was shown and comes back, too; and what its author wrote stays.
func TestTheBuiltInProxyHasAllOfItsWorkByArguments(t *testing.T) {
	j, g, s := behind(&api.ConsulProxy{Upstreams: []*api.ConsulUpstream{{DestinationName: "db", LocalBindPort: 5000}}})
	g.Meta = map[string]string{"connect.proxy": "builtin"}
	s.PortLabel = "9001"
	args := func() string {
		mesh.Inject(j, g)
		var all []string
		for _, a := range g.Tasks[len(g.Tasks)-1].Config["args"].([]any) {
			all = append(all, a.(string))
		}
		return strings.Join(all, " ")
	}
	const front = "connect proxy -service web -service-addr "
	const listen = " -listen 0.0.0.0:${NOMAD_PORT_connect_proxy_web}"
	if got := args(); got != front+"127.0.0.1:9001"+listen+" -upstream db:127.0.0.1:5000" {
		t.Errorf("it has %s", got)
	}
	p := s.Connect.SidecarService.Proxy
	p.Upstreams[0].LocalBindAddress, p.Upstreams[0].LocalBindPort = "::1", 5001
	if got := args(); got != front+"127.0.0.1:9001"+listen+" -upstream db:[::1]:5001" {
		t.Errorf("the job comes back with another upstream, and it has %s", got)
	}
	p.Upstreams, s.PortLabel = nil, "my-port"
	if got := args(); got != front+"127.0.0.1:${NOMAD_PORT_my_port}"+listen {
		t.Errorf("by a label of a port it has %s", got)
	}
	p.LocalServiceAddress, p.LocalServicePort = "127.0.0.3", 7
	if got := args(); got != front+"127.0.0.3:7"+listen {
		t.Errorf("with an address of its own it has %s", got)
	}
	own := map[string]any{"command": "${attr.consul.program}", "args": []any{"mine"}}
	s.Connect.SidecarTask = &api.SidecarTask{Config: own}
	g.Tasks = g.Tasks[:1]
	if got := args(); got != "mine" {
		t.Errorf("its author's words became %s", got)
	}
}

// TestANativeServiceNamesItsTask: its only task has the part in the mesh, and no proxy is added.
func TestANativeServiceNamesItsTask(t *testing.T) {
	j, g, s := behind(nil)
	s.Connect = &api.ConsulConnect{Native: true}
	mesh.Inject(j, g)
	if len(g.Tasks) != 1 || g.Tasks[0].Kind != "connect-native:web" || s.TaskName != "app" {
		t.Errorf("%s", text(t, g))
	}
	if wrong := mesh.Problems(j, g); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// TestAnExposedCheckHasAPathPastTheMesh: at a port of its own, once.
func TestAnExposedCheckHasAPathPastTheMesh(t *testing.T) {
	j, g, s := behind(nil)
	s.Checks = []*api.ServiceCheck{{Name: "c", Type: "http", Path: "/health", Expose: true}}
	mesh.Inject(j, g)
	mesh.Inject(j, g)
	e := s.Connect.SidecarService.Proxy.Expose
	if len(e.Paths) != 1 || e.Paths[0].Path != "/health" || e.Paths[0].ListenerPort != s.Checks[0].PortLabel ||
		len(g.Networks[0].DynamicPorts) != 2 {
		t.Errorf("%s", text(t, g))
	}
	if wrong := mesh.Problems(j, g); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// TestWhatCannotWorkInTheMeshIsRefused: each with what is wrong and the way out.
func TestWhatCannotWorkInTheMeshIsRefused(t *testing.T) {
	up := func(u api.ConsulUpstream) *api.ConsulProxy {
		return &api.ConsulProxy{Upstreams: []*api.ConsulUpstream{&u}}
	}
	db := api.ConsulUpstream{DestinationName: "db", LocalBindPort: 5000}
	with := func(change func(*api.ConsulUpstream)) *api.ConsulProxy {
		u := db
		change(&u)
		return up(u)
	}
	for says, c := range map[string]struct {
		proxy   *api.ConsulProxy
		builtin bool
		change  func(*api.TaskGroup, *api.Service)
	}{
		"needs one of native": {change: func(_ *api.TaskGroup, s *api.Service) { s.Connect.Native = true }},
		"write provider = \"consul\"": {
			change: func(_ *api.TaskGroup, s *api.Service) { s.Provider = "nomad" }},
		"no upper-case letters": {change: func(_ *api.TaskGroup, s *api.Service) { s.Name = "Web" }},
		"write mode = \"bridge\"": {
			change: func(g *api.TaskGroup, _ *api.Service) { g.Networks[0].Mode = "host" }},
		"does not know where it is": {change: func(_ *api.TaskGroup, s *api.Service) { s.PortLabel = "" }},
		"move the service there": {change: func(g *api.TaskGroup, s *api.Service) {
			g.Services, g.Tasks[0].Services = nil, []*api.Service{s}
		}},
		"the servers write it": {
			change: func(g *api.TaskGroup, _ *api.Service) { g.Tasks[0].Kind = "connect-proxy:x" }},
		"expose is for services behind a sidecar": {change: func(g *api.TaskGroup, _ *api.Service) {
			g.Services = append(g.Services, &api.Service{Name: "o", Checks: []*api.ServiceCheck{{Expose: true}}})
		}},
		"write \"envoy\" or \"builtin\"": {
			change: func(g *api.TaskGroup, _ *api.Service) { g.Meta = map[string]string{"connect.proxy": "other"} }},
		"no config: write sidecar_task": {change: func(_ *api.TaskGroup, s *api.Service) {
			s.Connect.SidecarTask = &api.SidecarTask{Driver: "java"}
		}},
		"needs destination_name": {proxy: up(api.ConsulUpstream{LocalBindPort: 1})},
		"write local_bind_port":  {proxy: up(api.ConsulUpstream{DestinationName: "db"})},
		"is taken by upstream": {proxy: &api.ConsulProxy{Upstreams: []*api.ConsulUpstream{&db, {
			DestinationName:  "other",
			LocalBindAddress: "127.0.0.1",
			LocalBindPort:    5000,
		}}}},
		"must be service or prepared_query": {
			proxy: with(func(u *api.ConsulUpstream) { u.DestinationType = "x" })},
		"must be local, remote or none": {
			proxy: with(func(u *api.ConsulUpstream) { u.MeshGateway = &api.ConsulMeshGateway{Mode: "x"} })},
		"it is octal": {proxy: with(func(u *api.ConsulUpstream) { u.LocalBindSocketMode = "9" })},
		"does not begin with /": {proxy: &api.ConsulProxy{Expose: &api.ConsulExposeConfig{
			Paths: []*api.ConsulExposePath{{Path: "x", ListenerPort: "connect-proxy-web"}}}}},
		"which the group's network has not": {proxy: &api.ConsulProxy{Expose: &api.ConsulExposeConfig{
			Paths: []*api.ConsulExposePath{{Path: "/x", ListenerPort: "none"}}}}},
		"config protocol = http: Consul's built-in proxy": {builtin: true,
			proxy: with(func(u *api.ConsulUpstream) { u.Config = map[string]any{"protocol": "http"} })},
		"cannot go by a mesh gateway": {builtin: true,
			proxy: with(func(u *api.ConsulUpstream) { u.MeshGateway = &api.ConsulMeshGateway{Mode: "local"} })},
		"config connect_timeout_ms = 7: Consul's built-in proxy": {builtin: true,
			proxy: with(func(u *api.ConsulUpstream) { u.Config = map[string]any{"connect_timeout_ms": 7} })},
		"cannot reach another datacenter": {builtin: true,
			proxy: with(func(u *api.ConsulUpstream) { u.Datacenter = "dc2" })},
		"cannot ask a prepared query": {builtin: true,
			proxy: with(func(u *api.ConsulUpstream) { u.DestinationType = "prepared_query" })},
		"cannot reach a peer": {builtin: true,
			proxy: with(func(u *api.ConsulUpstream) { u.DestinationPeer = "p" })},
		"cannot listen on a unix socket": {builtin: true,
			proxy: with(func(u *api.ConsulUpstream) { u.LocalBindPort, u.LocalBindSocketPath = 0, "/s" })},
		"cannot expose paths": {builtin: true, proxy: &api.ConsulProxy{Expose: &api.ConsulExposeConfig{
			Paths: []*api.ConsulExposePath{{Path: "/x", ListenerPort: "connect-proxy-web"}}}}},
	} {
		j, g, s := behind(c.proxy)
		if c.builtin {
			g.Meta = map[string]string{"connect.proxy": "builtin"}
		}
		if c.change != nil {
			c.change(g, s)
		}
		mesh.Inject(j, g)
		wrong := strings.Join(mesh.Problems(j, g), "\n")
		if !strings.Contains(wrong, says) {
			t.Errorf("it says %q, want %q", wrong, says)
		}
	}
	j, g, _ := behind(up(db))
	g.Meta = map[string]string{"connect.proxy": "builtin"}
	mesh.Inject(j, g)
	if wrong := mesh.Problems(j, g); len(wrong) > 0 {
		t.Errorf("what works is refused: %q", wrong)
	}
}
