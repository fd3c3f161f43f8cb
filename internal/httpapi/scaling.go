package httpapi

import (
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert/scaling"
	"berth/internal/wire"
)

// How groups of jobs are scaled.
var (
	jobScale       = calls.Write(wire.JobScale, calls.Changes(scaling.ToScale), registered)
	jobScaleStatus = calls.Read(wire.JobScaleStatus, calls.ByName[ids.Job],
		calls.One("job", calls.Public(scaling.Status)))

	scalingPolicies = calls.Read(wire.ScalingPolicyList,
		func(r *calls.Request) (*wire.ScalingPoliciesRequest, error) {
			q, err := r.List()
			return &wire.ScalingPoliciesRequest{Query: q, Job: ids.Job(r.Arg("job")), Type: r.Arg("type")}, err
		}, calls.Listed(wire.KeyOfPolicy, scaling.Stub))
	scalingPolicy = calls.Read(wire.ScalingPolicyGet, calls.ByID[ids.Scaling]("policy"),
		calls.One("policy", calls.Public(scaling.Policy)))
)
