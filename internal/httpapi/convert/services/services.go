// Package services owns the public shapes of services that are found and of their checks. Only httpapi imports it.
package services

import (
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/derive/service"
	"berth/internal/wire"
)

// Registration is the public shape of a registration.
func Registration(r *service.Registration) *api.ServiceRegistration {
	return &api.ServiceRegistration{
		ID:          r.ID,
		ServiceName: r.Name,
		Namespace:   string(r.Namespace),
		NodeID:      string(r.Node),
		Datacenter:  r.Datacenter,
		JobID:       string(r.Job),
		AllocID:     string(r.Alloc),
		Tags:        append([]string{}, r.Tags...),
		Address:     r.Address,
		Port:        r.Port,
		CreateIndex: r.CreateIndex,
		ModifyIndex: r.ModifyIndex,
	}
}

// Registrations are the public shapes of registrations.
func Registrations(out *wire.List[*service.Registration]) []*api.ServiceRegistration {
	list := make([]*api.ServiceRegistration, 0, len(out.Items))
	for _, r := range out.Items {
		list = append(list, Registration(r))
	}
	return list
}

// Names lists the services of each namespace with the tags that any instance has.
func Names(out *wire.List[*service.Registration]) []*api.ServiceRegistrationListStub {
	byNamespace := map[string]map[string][]string{}
	for _, r := range out.Items {
		ns := byNamespace[string(r.Namespace)]
		if ns == nil {
			ns = map[string][]string{}
			byNamespace[string(r.Namespace)] = ns
		}
		if ns[r.Name] == nil {
			ns[r.Name] = []string{}
		}
		ns[r.Name] = append(ns[r.Name], r.Tags...)
	}
	list := make([]*api.ServiceRegistrationListStub, 0, len(byNamespace))
	for ns, names := range byNamespace {
		stub := &api.ServiceRegistrationListStub{Namespace: ns}
		for name, tags := range names {
			slices.Sort(tags)
			stub.Services = append(stub.Services,
				&api.ServiceRegistrationStub{ServiceName: name, Tags: slices.Compact(tags)})
		}
		slices.SortFunc(stub.Services, func(a, b *api.ServiceRegistrationStub) int {
			return strings.Compare(a.ServiceName, b.ServiceName)
		})
		list = append(list, stub)
	}
	slices.SortFunc(list, func(a, b *api.ServiceRegistrationListStub) int {
		return strings.Compare(a.Namespace, b.Namespace)
	})
	return list
}

// Checks are the public shapes of what checks have found, by their ids. Group is shown as it is observed: the alloc's
// name.
func Checks(out *wire.AllocChecksReply) map[string]*api.AllocCheckStatus {
	all := map[string]*api.AllocCheckStatus{}
	for _, c := range out.Checks {
		all[c.ID] = &api.AllocCheckStatus{
			ID:         c.ID,
			Check:      c.Check,
			Group:      out.AllocName,
			Mode:       c.Mode,
			Output:     c.Output,
			Service:    c.Service,
			Task:       c.Task,
			Status:     c.Status,
			StatusCode: c.StatusCode,
			Timestamp:  c.At,
		}
	}
	return all
}

// InConsul are the public shapes of how services stand in Consul.
func InConsul(out *wire.AllocChecksReply) []*api.ConsulServiceStatus {
	list := make([]*api.ConsulServiceStatus, 0, len(out.Consul))
	for _, s := range out.Consul {
		list = append(list, &api.ConsulServiceStatus{
			ID:         s.ID,
			Service:    s.Service,
			Task:       s.Task,
			Registered: s.Registered,
			Reason:     s.Why,
			Since:      s.Since,
			Tags:       append([]string{}, s.Tags...),
			Address:    s.Address,
			Port:       s.Port,
		})
	}
	return list
}

// Entries are the public shapes of how what gateways do stands in Consul.
func Entries(out *wire.JobConsulReply) []*api.ConsulEntryStatus {
	list := make([]*api.ConsulEntryStatus, 0, len(out.Entries))
	for _, e := range out.Entries {
		list = append(list, &api.ConsulEntryStatus{
			Kind:    e.Kind,
			Name:    e.Name,
			Written: e.Why == "",
			Reason:  e.Why,
			Since:   e.Since,
		})
	}
	return list
}

// ToChoice reads how many are to be chosen, and by which key: "3|key"; false: it says something else.
func ToChoice(text string) (n int, key string, ok bool) {
	number, key, ok := strings.Cut(text, "|")
	n, err := strconv.Atoi(number)
	return n, key, ok && err == nil && n > 0
}
