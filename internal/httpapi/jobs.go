package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// readJob decodes, refuses what is not built by name, fills in defaults and validates. It returns the job in both forms
// with what is worth a warning.
func (s *Server) readJob(r *request, j *api.Job, unknown []string, asked string) (*job.Job, []string, error) {
	if j == nil || j.ID == nil || *j.ID == "" {
		return nil, nil, badRequest("Job must be specified")
	}
	if asked != "" && *j.ID != asked {
		return nil, nil, badRequest("Job ID does not match")
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, nil, badRequest("the job has members that are not known: " + strings.Join(unknown, ", ") + "; remove them, nothing is dropped in silence")
	}
	if fields := api.Unsupported(j); len(fields) > 0 {
		var words []string
		for _, f := range fields {
			words = append(words, f.String())
		}
		return nil, nil, badRequest(strings.Join(words, "; "))
	}
	var warnings []string
	for _, f := range api.Ignored(j) {
		warnings = append(warnings, f.Name+" has no effect: "+f.Why)
	}
	ns := r.ns
	if r.arg("namespace") == "" && j.Namespace != nil && *j.Namespace != "" {
		ns = ids.Namespace(*j.Namespace)
	} else if j.Namespace != nil && *j.Namespace != "" && ids.Namespace(*j.Namespace) != ns {
		j.Namespace = nil // the query beats the body
	}
	if j.Region != nil && *j.Region != "" && *j.Region != "global" && *j.Region != s.cfg.Region {
		return nil, nil, noRegion()
	}
	convert.Canonicalize(j, s.cfg.Region, ns)
	if errs := convert.Validate(j); len(errs) > 0 {
		return nil, nil, &validationError{errs}
	}
	out := convert.ToJob(j)
	if out.Namespace == ids.ReservedNamespace {
		return nil, nil, fault.WithHint(fault.New(fault.Denied, "register", `job "`+string(out.ID)+`"`, `the namespace "berth" holds Berth's own jobs`), "use another namespace")
	}
	return out, warnings, nil
}

// validationError is a list of findings in the form that clients know.
type validationError struct{ errs []error }

func (v *validationError) Error() string {
	if len(v.errs) == 1 {
		return "1 error occurred:\n\t* " + v.errs[0].Error() + "\n\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d errors occurred:\n", len(v.errs))
	for _, e := range v.errs {
		b.WriteString("\t* " + e.Error() + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

// jobBody is a request that carries a job; the job is decoded strictly beside it.
func (r *request) jobBody(into any) (*api.Job, []string, error) {
	data, err := r.body()
	if err != nil {
		return nil, nil, err
	}
	j, unknown, err := api.DecodeJobStrict(envelopeJob(data))
	if err != nil {
		return nil, nil, badRequest(err.Error())
	}
	if err := unmarshal(data, into); err != nil {
		return nil, nil, badRequest(err.Error())
	}
	return j, unknown, nil
}

func (s *Server) jobRegister(r *request) (any, error) {
	var body api.JobRegisterRequest
	j, unknown, err := r.jobBody(&body)
	if err != nil {
		return nil, err
	}
	if body.PreserveResources {
		return nil, badRequest("PreserveResources is not built yet: leave it out and write the wanted resources in the job")
	}
	m, warnings, err := s.readJob(r, j, unknown, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, convert.Overrides(body.PolicyOverride)...)
	req := &wire.JobRegisterRequest{Job: m, EnforceIndex: body.EnforceIndex, ModifyIndex: body.JobModifyIndex,
		Priority: body.EvalPriority, PreserveCounts: body.PreserveCounts, Warnings: warnings}
	if sub := body.Submission; sub != nil {
		req.Submission = &job.Submission{Namespace: m.Namespace, Job: m.ID, Source: sub.Source, Format: sub.Format, VariableFlags: sub.VariableFlags, Variables: sub.Variables}
	}
	out, err := wire.JobRegister.Call(r.Context(), s.cfg.Servers, req)
	if err != nil {
		return nil, err
	}
	r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
	reply := &api.JobRegisterResponse{EvalID: string(out.Eval), EvalCreateIndex: out.EvalCreateIndex, JobModifyIndex: out.JobModifyIndex,
		Warnings: convert.WarningText(out.Warnings), Outcome: out.Outcome}
	return reply, nil
}

func (s *Server) jobPlan(r *request) (any, error) {
	var body api.JobPlanRequest
	j, unknown, err := r.jobBody(&body)
	if err != nil {
		return nil, err
	}
	m, warnings, err := s.readJob(r, j, unknown, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	out, err := wire.JobPlan.Call(r.Context(), s.cfg.Servers, &wire.JobPlanRequest{Job: m, Warnings: append(warnings, convert.Overrides(body.PolicyOverride)...)})
	if err != nil {
		return nil, err
	}
	reply := &api.JobPlanResponse{JobModifyIndex: out.JobModifyIndex, FailedTGAllocs: convert.Metrics(out.FailedTGAllocs),
		Warnings: convert.WarningText(out.Warnings), Index: out.Index,
		Annotations: &api.PlanAnnotations{DesiredTGUpdates: map[string]*api.DesiredUpdates{}}}
	for g, c := range out.Annotations {
		reply.Annotations.DesiredTGUpdates[g] = &api.DesiredUpdates{Ignore: c.Ignore, Place: c.Place, Migrate: c.Migrate, Stop: c.Stop,
			InPlaceUpdate: c.InPlaceUpdate, DestructiveUpdate: c.DestructiveUpdate, Canary: c.Canary, Preemptions: c.Preemptions}
	}
	if body.Diff {
		reply.Diff = convert.Diff(out.Old, m, out.Annotations)
	}
	return reply, nil
}

func (s *Server) jobValidate(r *request) (any, error) {
	var body api.JobValidateRequest
	j, unknown, err := r.jobBody(&body)
	if err != nil {
		return nil, err
	}
	out := &api.JobValidateResponse{DriverConfigValidated: true}
	m, warnings, err := s.readJob(r, j, unknown, "")
	if err != nil {
		out.ValidationErrors, out.Error = findings(err), err.Error()
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

func findings(err error) []string {
	var v *validationError
	if errors.As(err, &v) {
		var out []string
		for _, e := range v.errs {
			out = append(out, e.Error())
		}
		return out
	}
	return []string{err.Error()}
}

func (s *Server) jobList(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobList.Call(r.Context(), s.cfg.Servers, &q)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	views, err := listed(r, out.Jobs, func(v *wire.JobView) any { return convert.FromJobView(v) },
		func(v *wire.JobView) string { return string(v.Job.Namespace) + "." + string(v.Job.ID) })
	if err != nil {
		return nil, err
	}
	stubs := make([]*api.JobListStub, 0, len(views))
	for _, v := range views {
		stub := convert.JobStub(v)
		if !r.flag("meta") {
			stub.Meta = nil
		}
		stubs = append(stubs, stub)
	}
	return stubs, nil
}

// jobRef reads a job's name from the path with the parameters of a read.
func (r *request) jobRef() (*wire.JobRef, error) {
	q, err := r.query()
	return &wire.JobRef{Query: q, Job: ids.Job(r.PathValue("id"))}, err
}

func (s *Server) jobView(r *request) (*wire.JobView, error) {
	ref, err := r.jobRef()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobGet.Call(r.Context(), s.cfg.Servers, ref)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	if out.Job == nil {
		return nil, missing("job not found")
	}
	return out.Job, nil
}

func (s *Server) jobGet(r *request) (any, error) {
	v, err := s.jobView(r)
	return convert.FromJobView(v), err
}

func (s *Server) jobSummary(r *request) (any, error) {
	v, err := s.jobView(r)
	if err != nil {
		return nil, err
	}
	return convert.JobSummary(v), nil
}

func (s *Server) jobVersions(r *request) (any, error) {
	ref, err := r.jobRef()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobVersions.Call(r.Context(), s.cfg.Servers, ref)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	if len(out.Versions) == 0 {
		return nil, missing("job versions not found")
	}
	reply := &api.JobVersionsResponse{}
	for i, j := range out.Versions {
		reply.Versions = append(reply.Versions, convert.FromJob(j, out.Status, ""))
		if r.flag("diffs") && i+1 < len(out.Versions) {
			reply.Diffs = append(reply.Diffs, convert.Diff(out.Versions[i+1], j, nil))
		}
	}
	return reply, nil
}

func (s *Server) jobSubmission(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	version, err := r.number("version")
	if err != nil {
		return nil, err
	}
	out, err := wire.JobSubmission.Call(r.Context(), s.cfg.Servers, &wire.JobSubmissionRequest{Query: q, Job: ids.Job(r.PathValue("id")), Version: uint64(version)})
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	if out.Submission == nil {
		return nil, missing("job source not found")
	}
	sub := out.Submission
	return &submission{api.JobSubmission{Source: sub.Source, Format: sub.Format, VariableFlags: sub.VariableFlags, Variables: sub.Variables,
		Namespace: string(sub.Namespace), JobID: string(sub.Job), JobModifyIndex: sub.ModifyIndex}, sub.Version}, nil
}

// submission shows the version even when it is the first, 0, which a request leaves out.
type submission struct {
	api.JobSubmission
	Version uint64
}

func (s *Server) jobDeregister(r *request) (any, error) {
	priority, err := r.number("eval_priority")
	if err != nil {
		return nil, err
	}
	out, err := wire.JobDeregister.Call(r.Context(), s.cfg.Servers, &wire.JobDeregisterRequest{Namespace: r.ns, Job: ids.Job(r.PathValue("id")),
		Purge: r.flag("purge"), NoShutdownDelay: r.flag("no_shutdown_delay"), Priority: int(priority)})
	if fault.Has(err, fault.NotFound) {
		return &api.JobDeregisterResponse{}, nil // clients of this API take the absence of a job for its stop
	}
	if err != nil {
		return nil, err
	}
	r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
	return &api.JobDeregisterResponse{EvalID: string(out.Eval), EvalCreateIndex: out.EvalCreateIndex, JobModifyIndex: out.JobModifyIndex}, nil
}

func (s *Server) jobEvaluate(r *request) (any, error) {
	var body api.JobEvaluateRequest
	if r.ContentLength != 0 {
		if err := r.read(&body); err != nil {
			return nil, err
		}
	}
	if body.JobID != "" && body.JobID != r.PathValue("id") {
		return nil, badRequest("JobID \"" + body.JobID + "\" does not match the path's \"" + r.PathValue("id") + "\"")
	}
	out, err := wire.JobEvaluate.Call(r.Context(), s.cfg.Servers, &wire.JobEvaluateRequest{Namespace: r.ns, Job: ids.Job(r.PathValue("id")), ForceReschedule: body.EvalOptions.ForceReschedule})
	if err != nil {
		return nil, err
	}
	r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
	return &api.JobRegisterResponse{EvalID: string(out.Eval), EvalCreateIndex: out.EvalCreateIndex, JobModifyIndex: out.JobModifyIndex}, nil
}

func (s *Server) jobAllocs(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobAllocs.Call(r.Context(), s.cfg.Servers, &wire.JobAllocsRequest{Query: q, Job: ids.Job(r.PathValue("id")), All: r.flag("all")})
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	return allocStubs(out.Allocs), nil
}

func (s *Server) jobEvals(r *request) (any, error) {
	ref, err := r.jobRef()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobEvals.Call(r.Context(), s.cfg.Servers, ref)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	return evals(out.Evals), nil
}

// jobDeployment and jobDeployments answer truthfully that there are none: deployments are not built yet.
func (s *Server) jobDeployment(r *request) (any, error) {
	if _, err := s.jobViewOrNil(r); err != nil {
		return nil, err
	}
	return nil, nil
}

func (s *Server) jobDeployments(r *request) (any, error) {
	if _, err := s.jobViewOrNil(r); err != nil {
		return nil, err
	}
	return []*api.Deployment{}, nil
}

func (s *Server) jobViewOrNil(r *request) (*wire.JobView, error) {
	ref, err := r.jobRef()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobGet.Call(r.Context(), s.cfg.Servers, ref)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	return out.Job, nil
}
