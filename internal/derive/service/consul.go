package service

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/model/consul"
	"berth/internal/model/job"
)

// InConsul is a service of an alloc as an agent of Consul is to have it.
type InConsul struct {
	Service *consul.Service
	Checks  []consul.Check
	Of      *Instance
}

// Early reports whether it is registered before anything of its alloc runs: proxies ask Consul what they are to do.
func (c InConsul) Early() bool {
	return c.Of.Of.Connect.Proxied()
}

// ForConsul are the services of an alloc that are to be found in Consul, whether it runs or not, as the job lists them.
// One that cannot be put together is left out, and so is a check; why is in the error.
func ForConsul(s Source) ([]InConsul, error) {
	all, failed := s.instances(func(provider string) bool { return provider == job.ProviderConsul })
	errs := []error{failed}
	if len(all) == 0 {
		return nil, failed
	}
	checks, err := Checks(s)
	if err != nil {
		errs = append(errs, err)
	}
	var out []InConsul
	for _, i := range all {
		made, err := s.inConsul(i)
		if err != nil {
			errs = append(errs, fmt.Errorf("service %q: %w", i.Name, err))
			continue
		}
		for _, c := range checks {
			if c.Service.ID == i.ID {
				made.Checks = append(made.Checks, *c.Consul)
			}
		}
		out = append(out, made)
		if i.Of.Connect.Role() != job.RoleProxy {
			continue
		}
		proxy, err := s.beside(i, made.Service)
		if err != nil {
			errs = append(errs, fmt.Errorf("the proxy beside service %q: %w", i.Name, err))
			continue
		}
		out = append(out, proxy)
	}
	return out, errors.Join(errs...)
}

func (s Source) inConsul(i *Instance) (InConsul, error) {
	of := i.Of
	out := &consul.Service{
		ID:                i.ID,
		Name:              i.Name,
		Kind:              of.Kind,
		Tags:              i.Tags,
		Address:           i.Address,
		Port:              i.Port,
		EnableTagOverride: of.EnableTagOverride,
	}
	if of.Weights != nil {
		out.Weights = consul.Weights{Passing: of.Weights.Passing, Warning: of.Weights.Warning}
	}
	meta := of.Meta
	if s.Alloc.Canary && len(of.CanaryMeta) > 0 {
		meta = of.CanaryMeta
	}
	out.Meta = map[string]string{consul.MetaSource: consul.Source}
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		text, err := i.env.Replace(meta[k])
		if err != nil {
			return InConsul{}, err
		}
		out.Meta[k] = text
	}
	for _, k := range slices.Sorted(maps.Keys(of.TaggedAddresses)) {
		text, err := i.env.Replace(of.TaggedAddresses[k])
		if err != nil {
			return InConsul{}, err
		}
		if out.TaggedAddresses == nil {
			out.TaggedAddresses = map[string]consul.Address{}
		}
		out.TaggedAddresses[k] = tagged(text, i.Port)
	}
	out.Native = of.Connect != nil && of.Connect.Native
	if of.Connect != nil && of.Connect.Gateway != nil {
		return s.gateway(i, out)
	}
	return InConsul{Service: out, Of: i}, nil
}

// tagged reads an address of a job: a host, which has the service's own port, or a host and a port.
func tagged(text string, own int) consul.Address {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return consul.Address{Address: text, Port: own}
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return consul.Address{Address: text, Port: own}
	}
	return consul.Address{Address: host, Port: n}
}

// counted is a check whose answers in a row Consul counts, as the node has it.
func counted(of *job.ServiceCheck) *job.ServiceCheck {
	if of.Type == job.CheckScript {
		return of
	}
	out := *of
	out.SuccessBeforePassing, out.FailuresBeforeCritical = 0, 0
	return &out
}

// scriptMargin is for how long beyond its interval and its timeout nothing may be heard of a script: an agent that is
// restarted says nothing meanwhile.
const scriptMargin = 30 * time.Second

// forConsul is a check as Consul is to have it: what asks over the network is asked by its agent, what a script finds
// is said by the node.
func (s Source) forConsul(c *Check) *consul.Check {
	of := c.Of
	out := &consul.Check{
		Name:                   c.Name,
		Notes:                  of.Notes,
		Status:                 of.InitialStatus,
		SuccessBeforePassing:   of.SuccessBeforePassing,
		FailuresBeforeWarning:  of.FailuresBeforeWarning,
		FailuresBeforeCritical: of.FailuresBeforeCritical,
	}
	if of.Type == job.CheckScript {
		// How often in a row is counted by who asks.
		*out = consul.Check{Name: out.Name, Notes: out.Notes, Status: out.Status}
		out.TTL = (of.Interval + of.Timeout + scriptMargin).String()
	} else {
		out.Interval, out.Timeout = of.Interval.String(), of.Timeout.String()
	}
	if of.DeregisterCriticalServiceAfter > 0 {
		out.DeregisterAfter = of.DeregisterCriticalServiceAfter.String()
	}
	switch of.Type {
	case job.CheckHTTP:
		out.HTTP = cmp.Or(of.Protocol, "http") + "://" + c.Address + "/" + strings.TrimPrefix(c.Path, "/")
		out.Method, out.Body = of.Method, c.Body
		out.Header = c.Header
		out.TLSServer, out.TLSSkip = of.TLSServerName, of.TLSSkipVerify
	case job.CheckTCP:
		out.TCP = c.Address
	case job.CheckGRPC:
		out.GRPC = c.Address
		if of.GRPCService != "" {
			out.GRPC += "/" + of.GRPCService
		}
		out.GRPCTLS = of.GRPCUseTLS
		out.TLSServer, out.TLSSkip = of.TLSServerName, of.TLSSkipVerify
	}
	out.ID = consul.CheckID(c.Service.ID, *out)
	return out
}
