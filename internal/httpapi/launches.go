package httpapi

import (
	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert/launches"
	"berth/internal/wire"
)

// How jobs are launched that others describe.
var (
	jobDispatch = write(wire.JobDispatch, func(r *request) (*wire.JobDispatchRequest, error) {
		var in api.JobDispatchRequest
		if err := r.readOptional(&in); err != nil {
			return nil, err
		}
		token := r.URL.Query().Get("idempotency_token")
		return launches.ToDispatch(&in, r.ns, r.PathValue("id"), token), nil
	}, launches.Dispatched)

	jobForce = write(wire.JobForce, func(r *request) (*wire.JobForceRequest, error) {
		return &wire.JobForceRequest{Namespace: r.ns, Job: ids.Job(r.PathValue("id"))}, nil
	}, launches.Forced)

	jobPayload = jobForm(launches.Payload)
)
