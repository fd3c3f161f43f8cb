// Package mesh owns what services of Consul's mesh ask of their group: the tasks, ports, kinds and constraints that are
// added to it, and what is refused because it cannot work. Only jobrules imports it.
package mesh

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"berth/api"
	"berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/model/network"
)

// Inject adds to a group what its services in the mesh need, and nothing that is there: a job that was shown and comes
// back stays as it is. Names of services are filled in.
func Inject(j *api.Job, g *api.TaskGroup) {
	for _, s := range g.Services {
		if s == nil || s.Connect == nil || s.Provider != job.ProviderConsul {
			continue
		}
		switch c := s.Connect; {
		case c.Native:
			native(g, s)
		case c.SidecarService != nil:
			sidecar(j, g, s)
		case c.Gateway != nil:
			gateway(j, g, s)
		}
	}
}

// native gives the task that speaks the mesh's protocols itself its kind.
func native(g *api.TaskGroup, s *api.Service) {
	if s.TaskName == "" && len(g.Tasks) == 1 && g.Tasks[0] != nil {
		s.TaskName = g.Tasks[0].Name
	}
	for _, t := range g.Tasks {
		if t != nil && t.Name == s.TaskName && t.Kind == "" {
			t.Kind = string(job.KindOf(job.RoleNative, s.Name))
		}
	}
}

func sidecar(j *api.Job, g *api.TaskGroup, s *api.Service) {
	side := s.Connect.SidecarService
	if p := side.Proxy; p != nil {
		olderExpose(p)
	}
	for _, c := range s.Checks {
		if c != nil && c.Expose {
			expose(g, s, c)
		}
	}
	side.Port = cmp.Or(side.Port, job.RoleProxy+"-"+s.Name)
	if side.Port == job.RoleProxy+"-"+s.Name {
		addPort(g, side.Port)
	}
	kind := string(job.KindOf(job.RoleProxy, s.Name))
	addProxy(j, g, s, kind)
	for _, t := range g.Tasks {
		if t != nil && t.Kind == kind {
			bring(s, t)
		}
	}
}

// addProxy adds the task of a proxy, if the group has none of its kind.
func addProxy(j *api.Job, g *api.TaskGroup, s *api.Service, kind string) {
	if !slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return t != nil && t.Kind == kind }) {
		g.Tasks = append(g.Tasks, proxyTask(j, g, s, kind))
	}
}

// olderExpose takes over what is written under names of earlier versions.
func olderExpose(p *api.ConsulProxy) {
	if p.Expose == nil {
		p.Expose = p.ExposeConfig
	}
	p.ExposeConfig = nil
	if e := p.Expose; e != nil && len(e.Paths) == 0 {
		e.Paths, e.Path = e.Path, nil
	}
}

// expose lets a check reach its path past the mesh: by a port of its own, at which the proxy lets that path through.
func expose(g *api.TaskGroup, s *api.Service, c *api.ServiceCheck) {
	if c.Type != job.CheckHTTP && c.Type != job.CheckGRPC {
		return
	}
	label := "svc_" + s.Name + "_ck_" + short(c.Name, c.Type, c.Path)
	if c.PortLabel != "" && c.PortLabel != label {
		return // its author has chosen the port, with a path of his own
	}
	c.PortLabel = label
	addPort(g, label)
	side := s.Connect.SidecarService
	if side.Proxy == nil {
		side.Proxy = &api.ConsulProxy{}
	}
	if side.Proxy.Expose == nil {
		side.Proxy.Expose = &api.ConsulExposeConfig{}
	}
	e := side.Proxy.Expose
	if slices.ContainsFunc(e.Paths, func(p *api.ConsulExposePath) bool { return p != nil && p.ListenerPort == label }) {
		return
	}
	path, protocol := c.Path, "http"
	if c.Type == job.CheckGRPC {
		path, protocol = "/grpc.health.v1.Health/Check", "http2"
	}
	e.Paths = append(e.Paths, &api.ConsulExposePath{Path: path, Protocol: protocol, ListenerPort: label})
}

// short tells texts apart that become part of a name.
func short(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		_, _ = sum.Write([]byte(p + "\x00")) // it cannot fail
	}
	return hex.EncodeToString(sum.Sum(nil))[:6]
}

// addPort adds a port that is the same inside and outside, if the group has a network that can have one.
func addPort(g *api.TaskGroup, label string) {
	if len(g.Networks) != 1 || g.Networks[0] == nil {
		return
	}
	n := g.Networks[0]
	for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
		if p.Label == label {
			return
		}
	}
	p := api.Port{Label: label, To: -1}
	if onHost(g) {
		p.To = 0
	}
	n.DynamicPorts = append(n.DynamicPorts, p)
}

// onHost reports whether the network of a group is that of the host.
func onHost(g *api.TaskGroup) bool {
	return len(g.Networks) == 1 && g.Networks[0] != nil &&
		(g.Networks[0].Mode == "" || g.Networks[0].Mode == network.ModeHost)
}

// Which proxy a job's meta asks for.
const (
	metaProxy    = "connect.proxy"
	proxyEnvoy   = "envoy"
	proxyBuiltin = "builtin"
)

func asked(j *api.Job, g *api.TaskGroup) string {
	return cmp.Or(g.Meta[metaProxy], j.Meta[metaProxy], proxyEnvoy)
}

// proxyTask makes the task of the proxy beside a service.
func proxyTask(j *api.Job, g *api.TaskGroup, s *api.Service, kind string) *api.Task {
	proxy := asked(j, g)
	if s.Connect.Gateway != nil {
		proxy = proxyEnvoy // it is the one that can be a gateway
	}
	t := &api.Task{
		Name:          freeName(g, role(s.Connect)+"-"+s.Name),
		Kind:          kind,
		Driver:        defaultDriver(g, proxy),
		ShutdownDelay: 5 * time.Second,
		Resources:     &api.Resources{CPU: new(250), MemoryMB: new(128)},
		LogConfig:     &api.LogConfig{MaxFiles: new(2), MaxFileSizeMB: new(2)},
		Constraints: []*api.Constraint{
			{LTarget: "${attr.consul.version}", Operand: "semver", RTarget: ">= 1.8.0"},
		},
	}
	if s.Connect.Gateway == nil {
		t.Lifecycle = &api.TaskLifecycle{Hook: job.HookPrestart, Sidecar: true}
	}
	if own := s.Connect.SidecarTask; own != nil {
		lay(own, t)
	}
	if t.Config == nil {
		t.Config = defaultConfig(t.Driver, proxy, g, s)
	}
	need := func(attribute string) {
		t.Constraints = append(t.Constraints, &api.Constraint{LTarget: "${attr." + attribute + "}", Operand: "is_set"})
	}
	switch command := t.Config["command"]; {
	case proxy == proxyBuiltin && command == consul.BuiltinProgram:
		need(consul.AttributeProgram)
	case proxy == proxyEnvoy:
		t.Constraints = append(t.Constraints,
			&api.Constraint{LTarget: "${attr." + consul.AttributeGRPC + "}", Operand: ">", RTarget: "0"})
		if command == consul.EnvoyProgram {
			need(consul.AttributeEnvoy)
		}
	}
	return t
}

func freeName(g *api.TaskGroup, name string) string {
	if slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return t != nil && t.Name == name }) {
		return name + "-" + short(g.Name, name)
	}
	return name
}

func uses(g *api.TaskGroup, driver string) bool {
	return slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return t != nil && t.Driver == driver })
}

// defaultDriver is that of a proxy whose author says nothing.
func defaultDriver(g *api.TaskGroup, proxy string) string {
	first, second := "docker", "podman"
	if proxy == proxyBuiltin {
		first, second = "exec", "raw_exec"
	}
	if uses(g, second) && !uses(g, first) {
		return second
	}
	return first
}

// defaultConfig runs a proxy by a driver; nil: nobody knows how.
func defaultConfig(driver, proxy string, g *api.TaskGroup, s *api.Service) map[string]any {
	envoy := []any{"-c", "${NOMAD_SECRETS_DIR}/" + consul.BootstrapFile, "-l", "${meta.connect.log_level}",
		"--concurrency", "${meta.connect.proxy_concurrency}", "--disable-hot-restart"}
	switch program := driver == "exec" || driver == "raw_exec"; {
	case program && proxy == proxyBuiltin:
		return map[string]any{"command": consul.BuiltinProgram, "args": builtinArgs(s)}
	case program:
		return map[string]any{"command": consul.EnvoyProgram, "args": envoy}
	case driver == "docker" || driver == "podman":
		image := "${meta.connect.sidecar_image}"
		if s.Connect.Gateway != nil {
			image = "${meta.connect.gateway_image}"
		}
		config := map[string]any{"image": image, "args": envoy}
		if onHost(g) { // else a container has a network of its own
			config["network_mode"] = network.ModeHost
		}
		return config
	}
	return nil
}

// lay lays what an author wants over the task of a proxy.
func lay(own *api.SidecarTask, t *api.Task) {
	t.Name = cmp.Or(own.Name, t.Name)
	t.Driver = cmp.Or(own.Driver, t.Driver)
	t.User = cmp.Or(own.User, t.User)
	t.KillSignal = cmp.Or(own.KillSignal, t.KillSignal)
	if own.Config != nil {
		t.Config = own.Config
	}
	t.Env, t.Meta = own.Env, own.Meta
	t.VolumeMounts, t.Identities = own.VolumeMounts, own.Identities
	if said(own.KillTimeout) {
		t.KillTimeout = own.KillTimeout
	}
	if said(own.ShutdownDelay) {
		t.ShutdownDelay = *own.ShutdownDelay
	}
	if l := own.LogConfig; l != nil {
		pick(&t.LogConfig.MaxFiles, l.MaxFiles)
		pick(&t.LogConfig.MaxFileSizeMB, l.MaxFileSizeMB)
		pick(&t.LogConfig.Disabled, l.Disabled)
	}
	if r := own.Resources; r != nil {
		merged := *r
		if !said(r.CPU) && !said(r.Cores) {
			merged.CPU = t.Resources.CPU
		}
		if !said(r.MemoryMB) {
			merged.MemoryMB = t.Resources.MemoryMB
		}
		t.Resources = &merged
	}
}

// said reports whether an author gave a value: what a job that is shown has of him where he gave none is zero.
func said[T comparable](v *T) bool {
	var zero T
	return v != nil && *v != zero
}

func pick[T comparable](into **T, v *T) {
	if said(v) {
		*into = v
	}
}
