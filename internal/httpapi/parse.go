package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/sandbox"
)

// Parser evaluates a job file and returns the job that clients would send, as JSON. Faults of kind Invalid are the
// author's, Busy asks to come again.
type Parser interface {
	Parse(ctx context.Context, req *sandbox.Request) (json.RawMessage, error)
}

// jobParse turns a job file into the job that clients would send.
func (s *Server) jobParse(r *calls.Request) (any, error) {
	var body api.JobsParseRequest
	if err := r.Read(&body); err != nil {
		return nil, err
	}
	job, err := s.cfg.Parser.Parse(r.Context(), &sandbox.Request{
		Source:       body.JobHCL,
		Variables:    body.Variables,
		Canonicalize: body.Canonicalize,
		Region:       s.cfg.Region,
		Namespace:    r.Namespace,
	})
	if fault.Has(err, fault.Busy) {
		return nil, calls.Refuse(http.StatusTooManyRequests, err.Error())
	}
	return job, err
}
