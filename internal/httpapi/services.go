package httpapi

import (
	"berth/internal/base/ids"
	"berth/internal/derive/service"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert/services"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// What is read and written of services.
var (
	serviceList = calls.Read(wire.ServiceList, calls.ListBy(), calls.As(services.Names))
	serviceGet  = calls.Read(wire.ServiceGet, func(r *calls.Request) (*wire.ServiceGetRequest, error) {
		q, err := r.List()
		req := &wire.ServiceGetRequest{Query: q, Name: r.PathValue("name")}
		if choose := r.Arg("choose"); choose != "" && err == nil {
			var ok bool
			if req.Choose, req.Key, ok = services.ToChoice(choose); !ok {
				return nil,
					calls.BadRequest(`choose must be a number above 0 and a key, as in "2|key", is "` + choose + `"`)
			}
		}
		switch provider := r.Arg("provider"); provider {
		case "", job.ProviderServers:
		case job.ProviderConsul:
			req.Consul = true
		default:
			return nil, calls.BadRequest(`provider must be nomad or consul, is "` + provider + `"`)
		}
		return req, err
	}, calls.Listed((*service.Registration).Key, services.Registration))
	serviceDelete = calls.Write(wire.ServiceDelete, func(r *calls.Request) (*wire.ServiceDeleteRequest, error) {
		return &wire.ServiceDeleteRequest{
			Namespace: r.Namespace,
			Name:      r.PathValue("name"),
			ID:        r.PathValue("id"),
			By:        access.Peer(r.Request),
		}, nil
	}, calls.Empty)
	jobServices = calls.Read(wire.JobServices, calls.ByName[ids.Job], calls.As(services.Registrations))
	jobConsul   = calls.Call(wire.JobConsul, func(r *calls.Request) (*wire.JobConsulRequest, error) {
		return &wire.JobConsulRequest{Namespace: r.Namespace, Job: ids.Job(r.PathValue("id"))}, nil
	}, calls.As(services.Entries))
	allocServices = calls.Read(wire.AllocServices, calls.ByID[ids.Alloc]("alloc"), calls.As(services.Registrations))
	allocChecks   = calls.Call(wire.AllocChecks, allocTarget, calls.As(services.Checks))
	allocConsul   = calls.Call(wire.AllocChecks, allocTarget, calls.As(services.InConsul))
)
