package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/jobfindings"
	"berth/internal/httpapi/jobrules"
	"berth/internal/model/job"
	"berth/internal/wire"
	"berth/jobspec/jobjson"
	"berth/jobspec/support"
)

// readJob refuses by name what is not built, fills in defaults and validates. It returns the internal job with what is
// worth a warning; so are the members that are not known: clients of later versions of this API send such.
func (s *Server) readJob(
	r *calls.Request, j *api.Job, unknown []jobjson.Unknown, asked string,
) (*job.Job, []string, error) {
	if j == nil || j.ID == nil || *j.ID == "" {
		return nil, nil, calls.BadRequest("Job must be specified")
	}
	if asked != "" && *j.ID != asked {
		return nil, nil, calls.BadRequest("Job ID does not match")
	}
	unbuilt := support.Unsupported(j)
	warnings := jobjson.Ignored(unknown)
	for _, f := range support.Ignored(j) {
		warnings = append(warnings, f.Name+" has no effect: "+f.Why)
	}
	ns := r.Namespace
	if r.Arg("namespace") == "" && j.Namespace != nil && *j.Namespace != "" {
		ns = ids.Namespace(*j.Namespace)
	} else if j.Namespace != nil && *j.Namespace != "" && ids.Namespace(*j.Namespace) != ns {
		j.Namespace = nil // the query beats the body
	}
	jobrules.Canonicalize(j, s.cfg.Region, ns)
	errs, misplaced := jobrules.Validate(j), s.misplaced(j)
	malformed := job.DropNulls(j)
	out := convert.ToJob(j)
	excess := calls.Rows(out.Excesses(), func(e *job.Excess) error { return e })
	if errs = slices.Concat(notBuilt(unbuilt), excess, errs, misplaced); len(errs) == 0 {
		return out, append(warnings, jobrules.Warnings(j)...), nil
	}
	all := jobfindings.Whole(r.Context(), s.cfg.Servers, out, errs)
	switch n := len(all.Findings); {
	case n == 1 && len(misplaced) == 1:
		return nil, nil, misplaced[0]
	case n == len(unbuilt): // it is said in the form that clients know for it
		return nil, nil, calls.BadRequest(strings.Join(calls.Rows(unbuilt, support.Field.String), "; "))
	case len(unbuilt)+len(excess) > 0 || malformed || strings.ContainsRune(*j.ID, 0):
		all.Status = calls.BadRequest("")
	}
	return nil, nil, all
}

// misplaced refuses where a job is to run: each with the status that clients know for it.
func (s *Server) misplaced(j *api.Job) (errs []error) {
	if *j.Region != s.cfg.Region {
		errs = append(errs, noRegion())
	}
	ns := ids.Namespace(*j.Namespace)
	if ns == wire.AllNamespaces {
		errs = append(errs, fault.New(fault.Invalid, "", fmt.Sprintf("job %q", *j.ID),
			"it names no namespace: \"*\" stands for all, in lists alone"))
	}
	if err := (&job.Job{ID: ids.Job(*j.ID), Namespace: ns}).Reserved(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

func notBuilt(fields []support.Field) []error {
	return calls.Rows(fields, func(f support.Field) error { return errors.New(f.String()) })
}

// jobBody reads a request that carries a job and gives the members of the job that are not known.
func jobBody(r *calls.Request, into any) ([]jobjson.Unknown, error) {
	data, err := r.Bytes()
	if err != nil {
		return nil, err
	}
	unknown, err := jobjson.DecodeRequest(data, into)
	if err != nil {
		return nil, calls.BadRequest(err.Error())
	}
	return unknown, nil
}
