// Package service owns what follows from an alloc, its job and its node about the services that can be found there:
// where each is, when it is registered (registration_flow.go), and what its checks have found (check_flow.go). Nobody
// registers a service: whether it is there is derived wherever it is asked for, so that none can be left behind.
package service

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/base/pattern"
	"berth/internal/derive/taskenv"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Registration is one instance of a service: what others need to reach it.
type Registration struct {
	ID          string // as ids of registrations are observed: see id
	Name        string
	Namespace   ids.Namespace
	Node        ids.Node
	Datacenter  string
	Job         ids.Job
	Alloc       ids.Alloc
	Tags        []string
	Address     string // an IP address, or what the job says
	Port        int    // 0: the service has none
	CreateIndex uint64 // of its alloc
	ModifyIndex uint64 // of its alloc
}

// Source is what the services of an alloc follow from.
type Source struct {
	Alloc *alloc.Alloc
	Job   *job.Job // the version that the alloc was made from
	Node  *node.Node
}

// Key is its place in lists.
func (r *Registration) Key() string { return r.ID }

// Instance is a service as an alloc has it: its texts are put together.
type Instance struct {
	Registration
	Of   *job.Service
	Task string // that answers for it; empty: the group does
	env  *texts
}

// Instances are the services of an alloc that the servers themselves tell of, whether they are registered or not, as
// the job lists them. A service whose texts would grow beyond their bounds, or whose name is none, is left out; why is
// in the error.
func Instances(s Source) ([]*Instance, error) {
	return s.instances(func(provider string) bool { return provider == job.ProviderServers })
}

func (s Source) instances(of func(provider string) bool) ([]*Instance, error) {
	g := s.Job.Group(s.Alloc.TaskGroup)
	if g == nil || s.Node == nil {
		return nil, nil
	}
	var out []*Instance
	var errs []error
	for t, svc := range g.AllServices() {
		if !of(svc.Provider) {
			continue
		}
		i, err := s.instance(g, t, svc)
		if err != nil {
			errs = append(errs, fmt.Errorf("service %q: %w", svc.Name, err))
			continue
		}
		out = append(out, i)
	}
	return out, errors.Join(errs...)
}

func (s Source) instance(g *job.TaskGroup, t *job.Task, of *job.Service) (*Instance, error) {
	owner, task := "group-"+g.Name, of.TaskName
	if t != nil {
		owner, task = t.Name, t.Name
	}
	env := &texts{of: taskenv.Source{
		Alloc:  s.Alloc,
		Job:    s.Job,
		Group:  g,
		Task:   cmp.Or(t, g.Task(of.TaskName)),
		Node:   s.Node,
		Region: s.Job.Region,

		Network: s.Alloc.Network,
	}}
	var err error
	i := &Instance{Of: of, Task: task, env: env}
	if i.Name, err = env.Replace(of.Name); err != nil {
		return nil, err
	}
	if why := BadName(i.Name); why != "" {
		return nil, fmt.Errorf("its name becomes %q: %s", i.Name, why)
	}
	tags := of.Tags
	if s.Alloc.Canary && len(of.CanaryTags) > 0 {
		tags = of.CanaryTags
	}
	if i.Tags, err = env.all(tags); err != nil {
		return nil, err
	}
	if i.Address, i.Port, err = s.at(of.PortLabel, of.Address, of.AddressMode, env); err != nil {
		return nil, err
	}
	i.ID = fmt.Sprintf("_nomad-task-%s-%s-%s-%s", s.Alloc.ID, owner, i.Name, of.PortLabel)
	if of.Provider == job.ProviderConsul {
		i.ID = inConsulID(s.Node.ID, s.Alloc.ID, owner, i.Name, of.PortLabel)
	}
	if of.Connect.Proxied() {
		i.Task = "" // its proxy is there before any task is
	}
	i.Namespace, i.Node = s.Alloc.Namespace, s.Alloc.Node
	i.Datacenter = s.Node.Datacenter
	i.Job, i.Alloc = s.Alloc.Job, s.Alloc.ID
	i.CreateIndex, i.ModifyIndex = s.Alloc.CreateIndex, s.Alloc.ModifyIndex
	return i, nil
}

// texts puts texts together. The environment is made with the first that refers to it: most refer to nothing, and lists
// of services are put together at each look.
type texts struct {
	of   taskenv.Source
	made *taskenv.Env
}

// Replace is taskenv.Env.Replace.
func (t *texts) Replace(text string) (string, error) {
	if Static(text) {
		return text, nil
	}
	if t.made == nil {
		env, err := taskenv.New(t.of)
		if err != nil {
			return "", err
		}
		t.made = &env
	}
	return t.made.Replace(text)
}

// at is the address of a service and its port.
func (s Source) at(label, address, mode string, env *texts) (string, int, error) {
	own, err := env.Replace(address)
	if err != nil {
		return "", 0, err
	}
	if job.WithinAlloc(mode) {
		return s.within(label, mode)
	}
	if label == "" {
		return cmp.Or(own, s.Node.Resources.IP), 0, nil
	}
	if number, err := strconv.Atoi(label); err == nil {
		return cmp.Or(own, s.Node.Resources.IP), number, nil
	}
	at := slices.IndexFunc(s.Alloc.Resources.Ports, func(p alloc.PortMapping) bool { return p.Label == label })
	if at < 0 {
		return "", 0, fmt.Errorf("the allocation has no port %q", label)
	}
	p := s.Alloc.Resources.Ports[at]
	return cmp.Or(own, p.HostIP, s.Node.Resources.IP), p.Value, nil
}

// within is the address of an alloc on its own network, and the port there.
func (s Source) within(label, mode string) (string, int, error) {
	n := s.Alloc.Network
	if n == nil || n.Address+n.IPv6 == "" {
		return "", 0, errors.New("the allocation has no network of its own yet")
	}
	address, family := n.Address, "IPv4"
	if mode == job.AddressAllocIPv6 {
		address, family = n.IPv6, "IPv6"
	}
	if address == "" {
		return "", 0, fmt.Errorf("the allocation has no %s address", family)
	}
	if number, err := strconv.Atoi(label); err == nil || label == "" {
		return address, number, nil
	}
	at := slices.IndexFunc(s.Alloc.Resources.Ports, func(p alloc.PortMapping) bool { return p.Label == label })
	if at < 0 {
		return "", 0, fmt.Errorf("the allocation has no port %q", label)
	}
	p := s.Alloc.Resources.Ports[at]
	return address, cmp.Or(p.To, p.Value), nil
}

var name = pattern.Of(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

// BadName says why a name is none that a service can have (RFC 1123 §2.1: it is a label of DNS); empty: it is one.
func BadName(s string) string {
	if name().MatchString(s) {
		return ""
	}
	return "write letters, digits and dashes, at most 63, with no dash at the ends"
}

// Static reports whether a text, such as the name of a service, is the same wherever it runs.
func Static(text string) bool { return !strings.Contains(text, "${") }

// HostPort joins the address and the port of a registration.
func (r Registration) HostPort() string {
	if r.Port == 0 {
		return r.Address
	}
	return net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
}
