package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/deployments"
	"berth/internal/httpapi/jobdiff"
	"berth/internal/httpapi/jobfindings"
	"berth/internal/model/eval"
	"berth/internal/model/node"
	"berth/internal/wire"
)

func (s *Server) jobRegister(r *calls.Request) (any, error) {
	var body api.JobRegisterRequest
	unknown, err := jobBody(r, &body)
	if err != nil {
		return nil, err
	}
	if body.PreserveResources {
		return nil, calls.BadRequest(
			"PreserveResources is not built yet: leave it out and write the wanted resources in the job")
	}
	m, warnings, err := s.readJob(r, body.Job, unknown, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	audit.Of(r.Context()).About(m.Namespace, string(m.ID))
	req := convert.ToRegistration(&body, m, warnings)
	answer, err := calls.Write(wire.JobRegister, calls.Fixed(req), registered)(r)
	if fault.Has(err, fault.NotFound) { // of a write of a job clients take 404 to say that the job is gone
		err = calls.Refuse(http.StatusInternalServerError, err.Error())
	}
	return answer, err
}

// registered answers what makes an evaluation of a job.
func registered(out *wire.JobRegisterReply) (uint64, any) {
	return out.Index, convert.Registered(out)
}

func (s *Server) jobPlan(r *calls.Request) (any, error) {
	var body api.JobPlanRequest
	unknown, err := jobBody(r, &body)
	if err != nil {
		return nil, err
	}
	m, warnings, err := s.readJob(r, body.Job, unknown, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, convert.Overrides(body.PolicyOverride)...)
	out, err := wire.JobPlan.Call(r.Context(), s.cfg.Servers, &wire.JobPlanRequest{Job: m, Warnings: warnings})
	if err != nil {
		return nil, err
	}
	r.Observed(wire.Meta{Index: out.Index, KnownLeader: true})
	m.NodePool = node.PoolOf(cmp.Or(out.NodePool, m.NodePool))
	reply := convert.Plan(out, m)
	if body.Diff {
		reply.Diff = jobdiff.Planned(out.Old, m, out.Annotations)
	}
	return reply, nil
}

func (s *Server) jobValidate(r *calls.Request) (any, error) {
	var body api.JobValidateRequest
	unknown, err := jobBody(r, &body)
	if err != nil {
		return nil, err
	}
	out := &api.JobValidateResponse{DriverConfigValidated: true}
	m, warnings, err := s.readJob(r, body.Job, unknown, "")
	if err != nil {
		out.ValidationErrors, warnings = jobfindings.List(err)
		out.Error, out.Warnings = err.Error(), convert.WarningText(warnings)
		return out, nil
	}
	reply, err := wire.JobValidate.Call(r.Context(), s.cfg.Servers, &wire.JobValidateRequest{Job: m})
	if err != nil {
		return nil, err
	}
	out.DriverConfigValidated, out.ValidationErrors = reply.DriverConfigValidated, reply.Errors
	out.Error = strings.Join(reply.Errors, "\n")
	out.Warnings = convert.WarningText(append(warnings, reply.Warnings...))
	return out, nil
}

var jobList = calls.Read(wire.JobList, calls.ListBy(),
	func(r *calls.Request, out *wire.List[*wire.JobView]) (any, error) {
		return calls.Table[*wire.JobView]{
			Key:  func(v *wire.JobView) string { return wire.KeyOfJob(v.Job) },
			Full: func(v *wire.JobView) any { return convert.FromJobView(v) },
			Row:  func(v *wire.JobView) any { return convert.JobStub(v, r.Flag("meta")) },
		}.Show(r, jobsOf(r, out.Items), out.NextToken)
	})

// jobForm answers with a form of the job that the path names.
func jobForm(form func(*wire.JobView) any) calls.Handler {
	return calls.Read(wire.JobGet, calls.ByName, calls.One("job", form))
}

var (
	jobGet     = jobForm(func(v *wire.JobView) any { return convert.FromJobView(v) })
	jobSummary = jobForm(func(v *wire.JobView) any { return convert.JobSummary(v) })
	// noneOfJob answers with the list of what no job can have yet.
	noneOfJob = jobForm(func(*wire.JobView) any { return []any{} })
)

func (s *Server) jobDeregister(r *calls.Request) (any, error) {
	answer, err := jobStop(r)
	if fault.Has(err, fault.NotFound) {
		return &api.JobDeregisterResponse{}, nil // clients of this API take the absence of a job for its stop
	}
	return answer, err
}

var jobStop = calls.Write(wire.JobDeregister, func(r *calls.Request) (*wire.JobDeregisterRequest, error) {
	priority, err := r.Number("eval_priority")
	return &wire.JobDeregisterRequest{
		Namespace:       r.Namespace,
		Job:             ids.Job(r.PathValue("id")),
		Purge:           r.Flag("purge"),
		NoShutdownDelay: r.Flag("no_shutdown_delay"),
		Priority:        int(priority),
	}, err
}, func(out *wire.JobRegisterReply) (uint64, any) {
	return out.Index, convert.Stopped(out)
})

var jobStart = calls.Write(wire.JobStart, func(r *calls.Request) (*wire.JobStartRequest, error) {
	return &wire.JobStartRequest{Namespace: r.Namespace, Job: ids.Job(r.PathValue("id"))}, nil
}, registered)

var jobAllocs = calls.Read(wire.JobAllocs, func(r *calls.Request) (*wire.JobAllocsRequest, error) {
	q, err := r.Query()
	return &wire.JobAllocsRequest{Query: q, Job: ids.Job(r.PathValue("id")), All: r.Flag("all")}, err
}, allocLines)

var jobRollout = calls.Read(wire.JobRollout, calls.ByName,
	func(_ *calls.Request, out *wire.JobRolloutReply) (any, error) {
		return calls.Shown(out.Job, "job", func(v *wire.JobView) any {
			r := &api.JobRollout{
				Job:         convert.FromJobView(v),
				Allocations: []*api.AllocationListStub{},
				Evaluations: []*api.Evaluation{},
			}
			for _, b := range out.Allocs.Items {
				r.Allocations = append(r.Allocations, convert.AllocLine(&out.Allocs)(b))
			}
			for _, e := range out.Evals {
				r.Evaluations = append(r.Evaluations, convert.Eval(e, nil))
			}
			if out.Deployment != nil {
				r.Deployment = deployments.Deployment(out.Deployment)
			}
			return r
		})
	})

var jobEvals = calls.Read(wire.JobEvals, calls.ByName, func(r *calls.Request, out *wire.List[*eval.Eval]) (any, error) {
	items, err := calls.Filtered(r, out.Items, evalRow)
	return calls.Rows(items, evalRow), err
})

func deploymentDone(out *wire.DeploymentReply) (uint64, any) {
	return out.Index, deployments.Written(out)
}

func deploymentsOf(latest bool) func(*calls.Request) (*wire.JobDeploymentsRequest, error) {
	return func(r *calls.Request) (*wire.JobDeploymentsRequest, error) {
		q, err := r.Query()
		id := ids.Job(r.PathValue("id"))
		return &wire.JobDeploymentsRequest{Query: q, Job: id, All: r.Flag("all"), Latest: latest}, err
	}
}
