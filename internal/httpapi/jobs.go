package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/deployments"
	"berth/internal/httpapi/jobdiff"
	"berth/internal/httpapi/jobfindings"
	"berth/internal/model/eval"
	"berth/internal/model/node"
	"berth/internal/wire"
)

func (s *Server) jobRegister(r *request) (any, error) {
	var body api.JobRegisterRequest
	unknown, err := r.jobBody(&body)
	if err != nil {
		return nil, err
	}
	if body.PreserveResources {
		return nil, badRequest(
			"PreserveResources is not built yet: leave it out and write the wanted resources in the job")
	}
	m, warnings, err := s.readJob(r, body.Job, unknown, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	audit.Of(r.Context()).About(m.Namespace, string(m.ID))
	req := convert.ToRegistration(&body, m, warnings)
	answer, err := write(wire.JobRegister, fixed(req), registered)(s, r)
	if fault.Has(err, fault.NotFound) { // of a write of a job clients take 404 to say that the job is gone
		err = &statusError{http.StatusInternalServerError, err.Error()}
	}
	return answer, err
}

// fixed asks what is known already.
func fixed[Req any](req *Req) func(*request) (*Req, error) {
	return func(*request) (*Req, error) { return req, nil }
}

// registered answers what makes an evaluation of a job.
func registered(out *wire.JobRegisterReply) (uint64, any) {
	return out.Index, convert.Registered(out)
}

func (s *Server) jobPlan(r *request) (any, error) {
	var body api.JobPlanRequest
	unknown, err := r.jobBody(&body)
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
	r.observed(wire.Meta{Index: out.Index, KnownLeader: true})
	m.NodePool = node.PoolOf(cmp.Or(out.NodePool, m.NodePool))
	reply := convert.Plan(out, m)
	if body.Diff {
		reply.Diff = jobdiff.Planned(out.Old, m, out.Annotations)
	}
	return reply, nil
}

func (s *Server) jobValidate(r *request) (any, error) {
	var body api.JobValidateRequest
	unknown, err := r.jobBody(&body)
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

var jobList = read(wire.JobList, listBy(), func(r *request, out *wire.List[*wire.JobView]) (any, error) {
	return table[*wire.JobView]{
		key:  func(v *wire.JobView) string { return wire.KeyOfJob(v.Job) },
		full: func(v *wire.JobView) any { return convert.FromJobView(v) },
		row:  func(v *wire.JobView) any { return convert.JobStub(v, r.flag("meta")) },
	}.show(r, jobsOf(r, out.Items), out.NextToken)
})

// jobForm answers with a form of the job that the path names.
func jobForm(form func(*wire.JobView) any) handler {
	return read(wire.JobGet, byName, one("job", form))
}

var (
	jobGet     = jobForm(func(v *wire.JobView) any { return convert.FromJobView(v) })
	jobSummary = jobForm(func(v *wire.JobView) any { return convert.JobSummary(v) })
	// noneOfJob answers with the list of what no job can have yet.
	noneOfJob = jobForm(func(*wire.JobView) any { return []any{} })
)

func (s *Server) jobDeregister(r *request) (any, error) {
	answer, err := jobStop(s, r)
	if fault.Has(err, fault.NotFound) {
		return &api.JobDeregisterResponse{}, nil // clients of this API take the absence of a job for its stop
	}
	return answer, err
}

var jobStop = write(wire.JobDeregister, func(r *request) (*wire.JobDeregisterRequest, error) {
	priority, err := r.number("eval_priority")
	return &wire.JobDeregisterRequest{
		Namespace:       r.ns,
		Job:             ids.Job(r.PathValue("id")),
		Purge:           r.flag("purge"),
		NoShutdownDelay: r.flag("no_shutdown_delay"),
		Priority:        int(priority),
	}, err
}, func(out *wire.JobRegisterReply) (uint64, any) {
	return out.Index, convert.Stopped(out)
})

var jobStart = write(wire.JobStart, func(r *request) (*wire.JobStartRequest, error) {
	return &wire.JobStartRequest{Namespace: r.ns, Job: ids.Job(r.PathValue("id"))}, nil
}, registered)

var jobAllocs = read(wire.JobAllocs, func(r *request) (*wire.JobAllocsRequest, error) {
	q, err := r.query()
	return &wire.JobAllocsRequest{Query: q, Job: ids.Job(r.PathValue("id")), All: r.flag("all")}, err
}, allocLines)

var jobEvals = read(wire.JobEvals, byName, func(_ *request, out *wire.List[*eval.Eval]) (any, error) {
	return rows(out.Items, evalRow), nil
})

// changes reads a change of what the path names from a body, in the namespace of the request.
func changes[Body, Req any](form func(*Body, ids.Namespace, string) (*Req, error)) func(*request) (*Req, error) {
	return func(r *request) (*Req, error) {
		var in Body
		if err := r.readOptional(&in); err != nil {
			return nil, err
		}
		return form(&in, r.ns, r.PathValue("id"))
	}
}

func deploymentDone(out *wire.DeploymentReply) (uint64, any) {
	return out.Index, deployments.Written(out)
}

func deploymentsOf(latest bool) func(*request) (*wire.JobDeploymentsRequest, error) {
	return func(r *request) (*wire.JobDeploymentsRequest, error) {
		q, err := r.query()
		id := ids.Job(r.PathValue("id"))
		return &wire.JobDeploymentsRequest{Query: q, Job: id, All: r.flag("all"), Latest: latest}, err
	}
}
