package httpapi

import (
	"berth/internal/base/ids"
	"berth/internal/derive/service"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/convert/services"
	"berth/internal/wire"
)

// What is read and written of services.
var (
	serviceList = read(wire.ServiceList, listBy(), as(services.Names))
	serviceGet  = read(wire.ServiceGet, func(r *request) (*wire.ServiceGetRequest, error) {
		q, err := r.list()
		req := &wire.ServiceGetRequest{Query: q, Name: r.PathValue("name")}
		if choose := r.arg("choose"); choose != "" && err == nil {
			var ok bool
			if req.Choose, req.Key, ok = services.ToChoice(choose); !ok {
				return nil, badRequest(`choose must be a number above 0 and a key, as in "2|key", is "` + choose + `"`)
			}
		}
		return req, err
	}, listed((*service.Registration).Key, services.Registration))
	serviceDelete = write(wire.ServiceDelete, func(r *request) (*wire.ServiceDeleteRequest, error) {
		return &wire.ServiceDeleteRequest{
			Namespace: r.ns,
			Name:      r.PathValue("name"),
			ID:        r.PathValue("id"),
			By:        access.Peer(r.Request),
		}, nil
	}, empty)
	jobServices   = read(wire.JobServices, byName[ids.Job], as(services.Registrations))
	allocServices = read(wire.AllocServices, byID[ids.Alloc]("alloc"), as(services.Registrations))
	allocChecks   = call(wire.AllocChecks, (*request).allocTarget, as(services.Checks))
)
