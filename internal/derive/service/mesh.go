package service

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/model/job"
)

// sidecarSuffix is what the id and the name of a proxy have beyond those of the service behind it, as in Consul itself.
const sidecarSuffix = "-sidecar-proxy"

// SidecarID is the id of the proxy beside a service.
func SidecarID(id string) string { return id + sidecarSuffix }

// anywhere is the address of all interfaces of a network: an alloc listens there, and is reached at another one.
const anywhere = "0.0.0.0"

// ProxyOf are the ids in Consul of the service that a task is the proxy for, and of the proxy, which gateways are
// themselves.
func ProxyOf(s Source, t *job.Task) (of, proxy string, err error) {
	g := s.Job.Group(s.Alloc.TaskGroup)
	svc := g.ServiceOf(t)
	if svc == nil || !t.Kind.Proxies() {
		return "", "", fmt.Errorf("the group has no service for the kind %q of the task", t.Kind)
	}
	id := inConsulID(s.Node.ID, s.Alloc.ID, "group-"+g.Name, svc.Name, svc.PortLabel)
	if svc.Connect.Gateway != nil {
		return id, id, nil
	}
	return id, SidecarID(id), nil
}

func inConsulID(n ids.Node, a ids.Alloc, owner, name, port string) string {
	return fmt.Sprintf("%s%s-%s-%s", consul.OfAlloc(n, a), owner, name, port)
}

// beside is the service of the proxy beside one.
func (s Source) beside(i *Instance, parent *consul.Service) (InConsul, error) {
	side := i.Of.Connect.SidecarService
	port, err := s.mapped(side.Port)
	if err != nil {
		return InConsul{}, err
	}
	own := *i
	own.ID, own.Name = SidecarID(i.ID), i.Name+sidecarSuffix
	own.Address, own.Port = cmp.Or(port.HostIP, s.Node.Resources.IP), port.Value
	out := &consul.Service{
		ID:                own.ID,
		Name:              own.Name,
		Kind:              consul.KindProxy,
		Tags:              i.Tags,
		Address:           own.Address,
		Port:              own.Port,
		Weights:           parent.Weights,
		EnableTagOverride: parent.EnableTagOverride,
	}
	if len(side.Tags) > 0 {
		out.EnableTagOverride = false
		if out.Tags, err = i.env.all(side.Tags); err != nil {
			return InConsul{}, err
		}
	}
	meta := map[string]string{consul.MetaSource: consul.Source}
	for _, k := range slices.Sorted(maps.Keys(side.Meta)) {
		if meta[k], err = i.env.Replace(side.Meta[k]); err != nil {
			return InConsul{}, err
		}
	}
	if out.Proxy, err = s.proxy(i, side.Proxy, inside(port)); err != nil {
		return InConsul{}, err
	}
	if out.Meta, err = consul.Marked(meta, out.Proxy); err != nil {
		return InConsul{}, err
	}
	made := InConsul{Service: out, Of: &own}
	if !side.DisableDefaultTCPCheck {
		made.Checks = append(made.Checks, listening(out))
	}
	alias := consul.Check{Name: "Connect Sidecar Aliasing " + i.ID, Alias: i.ID}
	alias.ID = consul.CheckID(out.ID, alias)
	made.Checks = append(made.Checks, alias)
	return made, nil
}

func listening(of *consul.Service) consul.Check {
	c := consul.Check{
		Name:     "Connect Sidecar Listening",
		TCP:      net.JoinHostPort(of.Address, strconv.Itoa(of.Port)),
		Interval: "10s",
		Timeout:  "3s",
	}
	c.ID = consul.CheckID(of.ID, c)
	return c
}

// mapped is a port of the alloc.
func (s Source) mapped(label string) (alloc.PortMapping, error) {
	for _, p := range s.Alloc.Resources.Ports {
		if p.Label == label {
			return p, nil
		}
	}
	return alloc.PortMapping{}, fmt.Errorf("the allocation has no port %q", label)
}

// inside is the port at which what is in the alloc's network listens.
func inside(p alloc.PortMapping) int {
	if p.To > 0 {
		return p.To
	}
	return p.Value
}

// proxy is what the proxy beside a service does, which listens at a port within the alloc.
func (s Source) proxy(i *Instance, of *job.Proxy, at int) (*consul.Proxy, error) {
	if of == nil {
		of = &job.Proxy{}
	}
	out := &consul.Proxy{
		DestinationServiceName: i.Name,
		DestinationServiceID:   i.ID,
		LocalServiceAddress:    cmp.Or(of.LocalServiceAddress, job.Loopback),
		LocalServicePort:       of.LocalServicePort,
		Config:                 map[string]any{"bind_address": anywhere, "bind_port": at},
	}
	if out.LocalServicePort == 0 {
		var err error
		if out.LocalServicePort, err = s.portWithin(i.Of.PortLabel); err != nil {
			return nil, err
		}
	}
	maps.Copy(out.Config, of.Config)
	for _, u := range of.Upstreams {
		made := consul.Upstream{
			DestinationType:     cmp.Or(u.DestinationType, "service"),
			DestinationName:     u.DestinationName,
			DestinationPeer:     u.DestinationPeer,
			Datacenter:          u.Datacenter,
			LocalBindAddress:    u.LocalBindAddress,
			LocalBindPort:       u.LocalBindPort,
			LocalBindSocketPath: u.LocalBindSocketPath,
			LocalBindSocketMode: u.LocalBindSocketMode,
			Config:              u.Config,
		}
		if u.MeshGateway != nil && u.MeshGateway.Mode != "" {
			made.MeshGateway = &consul.MeshGateway{Mode: u.MeshGateway.Mode}
		}
		out.Upstreams = append(out.Upstreams, made)
	}
	if of.Expose == nil {
		return out, nil
	}
	out.Expose = &consul.Expose{}
	for _, e := range of.Expose.Paths {
		p, err := s.mapped(e.ListenerPort)
		if err != nil {
			return nil, fmt.Errorf("exposed path %q: %w", e.Path, err)
		}
		out.Expose.Paths = append(out.Expose.Paths, consul.ExposePath{
			Path:          e.Path,
			Protocol:      cmp.Or(e.Protocol, "http"),
			LocalPathPort: cmp.Or(e.LocalPathPort, out.LocalServicePort),
			ListenerPort:  inside(p),
		})
	}
	return out, nil
}

// portWithin is the port that a service of the alloc listens on; 0: it has none.
func (s Source) portWithin(label string) (int, error) {
	if label == "" {
		return 0, nil
	}
	if n, err := strconv.Atoi(label); err == nil {
		return n, nil
	}
	p, err := s.mapped(label)
	return inside(p), err
}

// all puts texts together.
func (t *texts) all(list []string) (out []string, err error) {
	for _, one := range list {
		text, err := t.Replace(one)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}
