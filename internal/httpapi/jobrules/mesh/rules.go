package mesh

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/derive/service"
	"berth/internal/model/job"
	"berth/internal/model/network"
)

// rules collects what is wrong with a group.
type rules struct {
	j   *api.Job
	g   *api.TaskGroup
	at  string
	out []string
}

func (r *rules) add(format string, args ...any) {
	r.out = append(r.out, r.at+fmt.Sprintf(format, args...))
}

// Problems says what of a group's part in the mesh cannot work, each with the way out.
func Problems(j *api.Job, g *api.TaskGroup) []string {
	r := &rules{j: j, g: g}
	for _, t := range g.Tasks {
		if t == nil {
			continue
		}
		for _, s := range t.Services {
			if s != nil && s.Connect != nil {
				r.add("task %q: service %q: connect is for services of the group; move the service there",
					t.Name, s.Name)
			}
		}
		r.kind(t)
	}
	bound := map[string]string{}
	for _, s := range g.Services {
		if s == nil {
			continue
		}
		r.at = fmt.Sprintf("service %q: ", s.Name)
		if s.Connect == nil {
			r.unexposed(s)
			continue
		}
		r.member(s)
		if side := s.Connect.SidecarService; side != nil {
			r.sidecar(s, side, bound)
		}
	}
	return r.out
}

func (r *rules) unexposed(s *api.Service) {
	for _, c := range s.Checks {
		if c != nil && c.Expose {
			r.add("check %q: expose is for services behind a sidecar; remove it, or write "+
				"connect { sidecar_service {} }", c.Name)
		}
	}
}

// kind judges the kind of a task: only that of a service of its group has a meaning.
func (r *rules) kind(t *api.Task) {
	if t.Kind == "" {
		return
	}
	for _, s := range r.g.Services {
		if s != nil && t.Kind == string(job.KindOf(role(s.Connect), s.Name)) {
			return
		}
	}
	r.add("task %q: kind %q: no service of the group has that part in the mesh; leave it out: the servers write it",
		t.Name, t.Kind)
}

func role(c *api.ConsulConnect) string {
	switch {
	case c == nil:
		return ""
	case c.Native:
		return job.RoleNative
	case c.SidecarService != nil:
		return job.RoleProxy
	case c.Gateway != nil:
		return roleOf(c.Gateway)
	}
	return ""
}

// member judges what holds for all members of the mesh.
func (r *rules) member(s *api.Service) {
	c := s.Connect
	parts := 0
	for _, there := range []bool{c.Native, c.SidecarService != nil, c.Gateway != nil} {
		if there {
			parts++
		}
	}
	if parts != 1 {
		r.add("connect needs one of native = true, sidecar_service and gateway, and has %d of them", parts)
	}
	if c.Native && c.SidecarTask != nil {
		r.add("sidecar_task is for a proxy, and a native service has none; remove it")
	}
	if s.Provider != job.ProviderConsul {
		r.add("the mesh is Consul's; write provider = %q", job.ProviderConsul)
	}
	if !service.Static(s.Name) || strings.ToLower(s.Name) != s.Name {
		r.add("the name of a member of the mesh has no ${…} and no upper-case letters")
	}
	if strings.ToLower(r.g.Name) != r.g.Name {
		r.add("the group is named %q: one with members of the mesh has no upper-case letters in its name", r.g.Name)
	}
	if p := asked(r.j, r.g); p != proxyEnvoy && p != proxyBuiltin {
		r.add("meta %s is %q; write %q or %q", metaProxy, p, proxyEnvoy, proxyBuiltin)
	}
	if c.Native {
		r.native(s)
		return
	}
	if c.Gateway != nil {
		r.gateway(s, c.Gateway)
	}
	r.network(c.Gateway != nil)
	kind := string(job.KindOf(role(c), s.Name))
	for _, t := range r.g.Tasks {
		if t != nil && t.Kind == kind && len(t.Config) == 0 {
			r.add("its proxy's task %q has driver %q and no config: write sidecar_task { config { … } }, or one of "+
				"the drivers docker, podman, exec and raw_exec", t.Name, t.Driver)
		}
	}
}

func (r *rules) native(s *api.Service) {
	if s.TaskName == "" {
		r.add("the group has several tasks: write task = \"NAME\", the one that speaks the protocols of the mesh")
	}
	if s.PortLabel == "" {
		r.add("a native service is reached at its port; write port")
	}
}

// network judges where a proxy runs. That of a gateway stands beside nothing that others must not reach.
func (r *rules) network(gateway bool) {
	if len(r.g.Networks) != 1 || r.g.Networks[0] == nil {
		r.add("its proxy needs one network of the group; write network { mode = \"bridge\" }")
		return
	}
	if gateway && onHost(r.g) {
		return
	}
	mode := r.g.Networks[0].Mode
	if _, plugins := network.CNI(mode); !plugins && mode != network.ModeBridge {
		r.add("its proxy needs a network of the allocation's own; write mode = \"bridge\" or \"cni/NAME\" in network")
	}
}

func (r *rules) sidecar(s *api.Service, side *api.ConsulSidecarService, bound map[string]string) {
	p := side.Proxy
	if s.PortLabel == "" && (p == nil || p.LocalServicePort == 0) && len(upstreams(p)) == 0 {
		r.add("its proxy does not know where it is; write port in the service")
	}
	r.label("port of sidecar_service", side.Port)
	if p == nil {
		return
	}
	if p.LocalServicePort < 0 || p.LocalServicePort > 65535 {
		r.add("local_service_port %d is none from 1 to 65535", p.LocalServicePort)
	}
	for _, u := range p.Upstreams {
		if u != nil {
			r.upstream(u, bound)
		}
	}
	if p.Expose != nil {
		for _, e := range p.Expose.Paths {
			if e != nil {
				r.exposed(e)
			}
		}
	}
	if asked(r.j, r.g) == proxyBuiltin {
		r.builtin(p)
	}
}

func upstreams(p *api.ConsulProxy) []*api.ConsulUpstream {
	if p == nil {
		return nil
	}
	return p.Upstreams
}

// label judges that the group's network has a port.
func (r *rules) label(what, label string) {
	if len(r.g.Networks) != 1 || r.g.Networks[0] == nil {
		return // it is said already
	}
	n := r.g.Networks[0]
	if !slices.ContainsFunc(slices.Concat(n.ReservedPorts, n.DynamicPorts), func(p api.Port) bool {
		return p.Label == label
	}) {
		r.add("%s is %q, which the group's network has not", what, label)
	}
}

func (r *rules) upstream(u *api.ConsulUpstream, bound map[string]string) {
	name := u.DestinationName
	if name == "" {
		r.add("an upstream needs destination_name")
	}
	if !slices.Contains([]string{"", "service", "prepared_query"}, u.DestinationType) {
		r.add("upstream %q: destination_type must be service or prepared_query, is %q", name, u.DestinationType)
	}
	if m := u.MeshGateway; m != nil && !slices.Contains([]string{"", "local", "remote", "none"}, m.Mode) {
		r.add("upstream %q: the mode of mesh_gateway must be local, remote or none, is %q", name, m.Mode)
	}
	at := u.LocalBindSocketPath
	switch {
	case at != "" && u.LocalBindPort != 0:
		r.add("upstream %q: it has a local_bind_port and a local_bind_socket_path; leave one of them out", name)
	case at == "" && (u.LocalBindPort < 1 || u.LocalBindPort > 65535):
		r.add("upstream %q: write local_bind_port, from 1 to 65535, at which tasks of the group reach it", name)
	case at == "":
		address := u.LocalBindAddress
		if address == "" {
			address = job.Loopback
		}
		at = address + ":" + strconv.Itoa(u.LocalBindPort)
	}
	if mode := u.LocalBindSocketMode; mode != "" {
		if _, err := strconv.ParseUint(mode, 8, 12); err != nil || u.LocalBindSocketPath == "" {
			r.add("upstream %q: local_bind_socket_mode %q: it is octal, as \"0600\", and of a local_bind_socket_path",
				name, mode)
		}
	}
	if other, taken := bound[at]; taken && at != "" {
		r.add("upstream %q: %s is taken by upstream %q", name, at, other)
	}
	bound[at] = name
}

func (r *rules) exposed(e *api.ConsulExposePath) {
	if !strings.HasPrefix(e.Path, "/") {
		r.add("expose: path %q does not begin with /", e.Path)
	}
	if !slices.Contains([]string{"", "http", "http2"}, e.Protocol) {
		r.add("expose: path %q: protocol must be http or http2, is %q", e.Path, e.Protocol)
	}
	if e.LocalPathPort < 0 || e.LocalPathPort > 65535 {
		r.add("expose: path %q: local_path_port %d is none from 1 to 65535", e.Path, e.LocalPathPort)
	}
	r.label("listener_port of the exposed path "+e.Path, e.ListenerPort)
}

const envoyCan = "; Envoy can: leave meta " + metaProxy + " out"
