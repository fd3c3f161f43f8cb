package httpapi

import (
	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert/launches"
	"berth/internal/wire"
)

// How jobs are launched that others describe.
var (
	jobDispatch = calls.Write(wire.JobDispatch, func(r *calls.Request) (*wire.JobDispatchRequest, error) {
		var in api.JobDispatchRequest
		if err := r.ReadOptional(&in); err != nil {
			return nil, err
		}
		token := r.URL.Query().Get("idempotency_token")
		return launches.ToDispatch(&in, r.Namespace, r.PathValue("id"), token), nil
	}, launches.Dispatched)

	jobForce = calls.Write(wire.JobForce, func(r *calls.Request) (*wire.JobForceRequest, error) {
		return &wire.JobForceRequest{Namespace: r.Namespace, Job: ids.Job(r.PathValue("id"))}, nil
	}, launches.Forced)

	jobPayload = jobForm(launches.Payload)
)
