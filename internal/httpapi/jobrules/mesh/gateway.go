package mesh

import (
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/internal/model/job"
)

// gateway adds what the gateway of a service needs: its task, and for one that has no port where others know it, a port
// of the group.
func gateway(j *api.Job, g *api.TaskGroup, s *api.Service) {
	gw := s.Connect.Gateway
	role := roleOf(gw)
	if role == "" {
		return // it is refused
	}
	if gw.Proxy == nil {
		gw.Proxy = &api.ConsulGatewayProxy{}
	}
	if !said(gw.Proxy.ConnectTimeout) {
		gw.Proxy.ConnectTimeout = new(5 * time.Second)
	}
	for name, b := range gw.Proxy.EnvoyGatewayBindAddresses {
		if b != nil {
			b.Name = name
		}
	}
	if s.PortLabel == "" && role == job.RoleTerminating {
		s.PortLabel = role + "-" + s.Name
	}
	if s.PortLabel == job.RoleTerminating+"-"+s.Name {
		addPort(g, s.PortLabel)
	}
	addProxy(j, g, s, string(job.KindOf(role, s.Name)))
}

// roleOf is what the task of a gateway does; empty: it is of no kind, or of several.
func roleOf(g *api.ConsulGateway) (role string) {
	for r, there := range map[string]bool{
		job.RoleIngress:     g.Ingress != nil,
		job.RoleTerminating: g.Terminating != nil,
		job.RoleMesh:        g.Mesh != nil,
	} {
		switch {
		case there && role != "":
			return ""
		case there:
			role = r
		}
	}
	return role
}

// gateway judges what a gateway does.
func (r *rules) gateway(s *api.Service, g *api.ConsulGateway) {
	if roleOf(g) == "" {
		r.add("a gateway is one of ingress, terminating and mesh; write one of them")
		return
	}
	if s.PortLabel == "" {
		r.add("a gateway is reached at its port; write port")
	}
	if asked(r.j, r.g) != proxyEnvoy {
		r.add("Consul's built-in proxy cannot be a gateway%s", envoyCan)
	}
	if p := g.Proxy; p != nil {
		r.bound(p)
	}
	if g.Ingress != nil {
		r.ingress(g.Ingress)
	}
	if g.Terminating != nil {
		r.terminating(g.Terminating)
	}
}

func (r *rules) bound(p *api.ConsulGatewayProxy) {
	if p.ConnectTimeout != nil && *p.ConnectTimeout < 0 {
		r.add("connect_timeout %s is below zero", p.ConnectTimeout)
	}
	if !slices.Contains([]string{"", "STRICT_DNS", "LOGICAL_DNS"}, p.EnvoyDNSDiscoveryType) {
		r.add("envoy_dns_discovery_type must be STRICT_DNS or LOGICAL_DNS, is %q", p.EnvoyDNSDiscoveryType)
	}
	if onHost(r.g) && p.EnvoyGatewayNoDefaultBind && len(p.EnvoyGatewayBindAddresses) == 0 &&
		!p.EnvoyGatewayBindTaggedAddresses {
		r.add("with envoy_gateway_no_default_bind it listens nowhere; write envoy_gateway_bind_addresses, or leave it out")
	}
	for name, b := range p.EnvoyGatewayBindAddresses {
		if b == nil || b.Address == "" || b.Port < 1 || b.Port > 65535 {
			r.add("envoy_gateway_bind_addresses %q: write address, and port, from 1 to 65535", name)
		}
	}
}

func (r *rules) ingress(g *api.ConsulIngressConfigEntry) {
	if len(g.Listeners) == 0 {
		r.add("an ingress gateway needs a listener")
	}
	seen := map[int]bool{}
	for _, l := range g.Listeners {
		if l == nil {
			continue
		}
		if l.Port < 1 || l.Port > 65535 {
			r.add("listener: port %d is none from 1 to 65535", l.Port)
		}
		if seen[l.Port] {
			r.add("listener: port %d is that of two", l.Port)
		}
		seen[l.Port] = true
		if !slices.Contains([]string{"tcp", "http", "http2", "grpc"}, l.Protocol) {
			r.add("listener of port %d: protocol must be tcp, http, http2 or grpc, is %q", l.Port, l.Protocol)
		}
		if len(l.Services) == 0 || l.Protocol == "tcp" && len(l.Services) > 1 {
			r.add("listener of port %d: it needs services, and one alone where protocol is tcp; it has %d", l.Port,
				len(l.Services))
		}
		for _, s := range l.Services {
			if s != nil {
				r.behind(l, s)
			}
		}
	}
}

// behind judges a service behind a listener.
func (r *rules) behind(l *api.ConsulIngressListener, s *api.ConsulIngressService) {
	switch plain := l.Protocol == "tcp"; {
	case s.Name == "":
		r.add("listener of port %d: a service needs name", l.Port)
	case plain && s.Name == "*":
		r.add("listener of port %d: the service * is for protocols of HTTP", l.Port)
	case plain && (len(s.Hosts) > 0 || s.RequestHeaders != nil || s.ResponseHeaders != nil):
		r.add("listener of port %d: service %q: hosts and headers are of HTTP, and protocol is tcp", l.Port, s.Name)
	case s.Name == "*" && len(s.Hosts) > 0:
		r.add("listener of port %d: the service * has no hosts: each is found by its own name", l.Port)
	}
}

func (r *rules) terminating(g *api.ConsulTerminatingConfigEntry) {
	if len(g.Services) == 0 {
		r.add("a terminating gateway needs a service")
	}
	for _, s := range g.Services {
		switch {
		case s == nil:
		case strings.TrimSpace(s.Name) == "":
			r.add("terminating: a service needs name")
		case (s.CertFile == "") != (s.KeyFile == ""):
			r.add("terminating: service %q: cert_file and key_file belong together", s.Name)
		case s.SNI != "" && s.CAFile == "":
			r.add("terminating: service %q: sni is said to who is believed by ca_file; write that, too", s.Name)
		}
	}
}
