package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"berth/api"
	"berth/internal/model/consul"
	"berth/internal/model/job"
)

// bring brings the arguments of the built-in proxy in line with its service: a job that was shown may come back with
// other upstreams. What an author has written of it stays.
func bring(s *api.Service, t *api.Task) {
	own := s.Connect.SidecarTask
	if t.Config["command"] == consul.BuiltinProgram && (own == nil || own.Config == nil) {
		t.Config["args"] = builtinArgs(s)
	}
}

// builtinArgs say all to the built-in proxy. What Consul has of it would have it listen at the address where others
// reach it, which is the host's, and none of the network that it is in.
func builtinArgs(s *api.Service) []any {
	p := s.Connect.SidecarService.Proxy
	if p == nil {
		p = &api.ConsulProxy{}
	}
	port := strconv.Itoa(p.LocalServicePort)
	switch _, err := strconv.Atoi(s.PortLabel); {
	case p.LocalServicePort != 0 || s.PortLabel == "":
	case err == nil:
		port = s.PortLabel
	default:
		port = portOf(s.PortLabel)
	}
	args := []any{"connect", "proxy", "-service", s.Name,
		"-service-addr", net.JoinHostPort(cmp.Or(p.LocalServiceAddress, job.Loopback), port),
		"-listen", "0.0.0.0:" + portOf(s.Connect.SidecarService.Port)}
	for _, u := range p.Upstreams {
		if u != nil {
			at := net.JoinHostPort(cmp.Or(u.LocalBindAddress, job.Loopback), strconv.Itoa(u.LocalBindPort))
			args = append(args, "-upstream", u.DestinationName+":"+at)
		}
	}
	return args
}

// portOf is a port of the alloc as its tasks find it.
func portOf(label string) string { return "${NOMAD_PORT_" + job.EnvName(label) + "}" }

// builtin refuses what Consul's built-in proxy does not do: it passes connections on, and understands nothing in them.
func (r *rules) builtin(p *api.ConsulProxy) {
	if p.Expose != nil && len(p.Expose.Paths) > 0 {
		r.add("Consul's built-in proxy cannot expose paths%s", envoyCan)
	}
	r.plain("proxy", p.Config)
	for _, u := range p.Upstreams {
		if u == nil {
			continue
		}
		what := fmt.Sprintf("upstream %q", u.DestinationName)
		r.plain(what, u.Config)
		if u.MeshGateway != nil && !slices.Contains([]string{"", "none"}, u.MeshGateway.Mode) {
			r.add("%s: Consul's built-in proxy cannot go by a mesh gateway%s", what, envoyCan)
		}
		if u.DestinationPeer != "" {
			r.add("%s: Consul's built-in proxy cannot reach a peer%s", what, envoyCan)
		}
		if u.Datacenter != "" {
			r.add("%s: Consul's built-in proxy cannot reach another datacenter%s", what, envoyCan)
		}
		if u.DestinationType == "prepared_query" {
			r.add("%s: Consul's built-in proxy cannot ask a prepared query%s", what, envoyCan)
		}
		if u.LocalBindSocketPath != "" {
			r.add("%s: Consul's built-in proxy cannot listen on a unix socket%s", what, envoyCan)
		}
	}
}

func (r *rules) plain(what string, config map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(config)) {
		if k == "protocol" && config[k] == "tcp" {
			continue
		}
		r.add("%s: config %s = %v: Consul's built-in proxy passes TCP connections on as they are, and cannot do that%s",
			what, k, config[k], envoyCan)
	}
}
