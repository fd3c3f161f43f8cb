package service

import (
	"cmp"
	"errors"
	"maps"
	"time"

	"berth/internal/model/consul"
	"berth/internal/model/job"
)

// kinds are the kinds in Consul of gateways, by the roles of their tasks.
var kinds = map[string]string{
	job.RoleIngress:     consul.KindIngress,
	job.RoleTerminating: consul.KindTerminating,
	job.RoleMesh:        consul.KindMesh,
}

// ClusterOf is whom a proxy of a kind says to Envoy's statistics that it works for: a service, or gateways of its kind.
func ClusterOf(k job.TaskKind) string { return cmp.Or(kinds[k.Role()], k.Service()) }

// connectTimeout is how long a gateway waits for a connection, where its job says nothing.
const connectTimeout = 5 * time.Second

// gateway makes a service one of its kind of gateways. Consul would have it listen at the address where others reach it,
// which is the host's: so it does in the host's network alone, and on the interfaces of a network of the alloc's own.
func (s Source) gateway(i *Instance, out *consul.Service) (InConsul, error) {
	g := i.Of.Connect.Gateway
	if out.Port == 0 {
		return InConsul{}, errors.New("a gateway is reached at its port, and it has none")
	}
	p := g.Proxy
	if p == nil {
		p = &job.GatewayProxy{}
	}
	listens, err := s.portWithin(i.Of.PortLabel)
	if err != nil {
		return InConsul{}, err
	}
	binds := map[string]any{}
	for name, b := range p.EnvoyGatewayBindAddresses {
		binds[name] = map[string]any{"Address": b.Address, "Port": b.Port}
	}
	own := !s.Job.Group(s.Alloc.TaskGroup).OnHost()
	if own && len(binds) == 0 {
		binds["default"] = map[string]any{"Address": anywhere, "Port": listens}
	}
	config := map[string]any{"connect_timeout_ms": cmp.Or(p.ConnectTimeout, connectTimeout).Milliseconds()}
	if own || p.EnvoyGatewayNoDefaultBind {
		config["envoy_gateway_no_default_bind"] = true
	}
	if len(binds) > 0 {
		config["envoy_gateway_bind_addresses"] = binds
	}
	if p.EnvoyGatewayBindTaggedAddresses {
		config["envoy_gateway_bind_tagged_addresses"] = true
	}
	if p.EnvoyDNSDiscoveryType != "" {
		config["envoy_dns_discovery_type"] = p.EnvoyDNSDiscoveryType
	}
	maps.Copy(config, p.Config)
	out.Kind, out.Proxy = kinds[g.Role()], &consul.Proxy{Config: config}
	if g.Mesh != nil && len(out.TaggedAddresses) == 0 {
		// So other datacenters know it, and those of its own.
		at := consul.Address{Address: out.Address, Port: out.Port}
		out.TaggedAddresses = map[string]consul.Address{"lan": at, "wan": at}
	}
	if out.Meta, err = consul.Marked(out.Meta, out.Proxy); err != nil {
		return InConsul{}, err
	}
	return InConsul{Service: out, Checks: []consul.Check{listening(out)}, Of: i}, nil
}
