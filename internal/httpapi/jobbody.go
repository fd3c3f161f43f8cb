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
	"berth/internal/httpapi/jobfindings"
	"berth/internal/httpapi/jobrules"
	"berth/internal/model/job"
	"berth/jobspec/jobjson"
	"berth/jobspec/support"
)

// readJob refuses by name what is not built, fills in defaults and validates. It returns the internal job with what is
// worth a warning; so are the members that are not known: clients of later versions of this API send such.
func (s *Server) readJob(r *request, j *api.Job, unknown []jobjson.Unknown, asked string) (*job.Job, []string, error) {
	if j == nil || j.ID == nil || *j.ID == "" {
		return nil, nil, badRequest("Job must be specified")
	}
	if asked != "" && *j.ID != asked {
		return nil, nil, badRequest("Job ID does not match")
	}
	unbuilt := support.Unsupported(j)
	warnings := jobjson.Ignored(unknown)
	for _, f := range support.Ignored(j) {
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
	jobrules.Canonicalize(j, s.cfg.Region, ns)
	errs := jobrules.Validate(j)
	malformed := jobrules.DropNulls(j)
	out := convert.ToJob(j)
	excess := rows(out.Excesses(), func(e *job.Excess) error { return e })
	errs = slices.Concat(notBuilt(unbuilt), excess, errs)
	if out.Namespace == ids.ReservedNamespace {
		denied := fault.WithHint(fault.New(fault.Denied, "register", fmt.Sprintf("job %q", out.ID),
			`the namespace "berth" holds Berth's own jobs`), "use another namespace")
		if len(errs) == 0 {
			return nil, nil, denied
		}
		errs = append(errs, denied)
	}
	if len(errs) > 0 {
		all := jobfindings.Whole(r.Context(), s.cfg.Servers, out, errs)
		if len(all.Findings) == len(unbuilt) { // it is said in the form that clients know for it
			return nil, nil, badRequest(strings.Join(rows(unbuilt, support.Field.String), "; "))
		}
		if len(unbuilt)+len(excess) > 0 || malformed {
			all.Status = badRequest("")
		}
		return nil, nil, all
	}
	return out, append(warnings, jobrules.Warnings(j)...), nil
}

func notBuilt(fields []support.Field) []error {
	return rows(fields, func(f support.Field) error { return errors.New(f.String()) })
}

// jobBody reads a request that carries a job and gives the members of the job that are not known.
func (r *request) jobBody(into any) ([]jobjson.Unknown, error) {
	data, err := r.body()
	if err != nil {
		return nil, err
	}
	unknown, err := jobjson.DecodeRequest(data, into)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	return unknown, nil
}
