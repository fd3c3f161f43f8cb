package httpapi

import (
	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/jobspec"
)

// jobParse turns a job file into the job that clients would send. Functions that read files are off on servers.
func (s *Server) jobParse(r *request) (any, error) {
	var body api.JobsParseRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	cfg := jobspec.ParseConfig{Path: "job.nomad.hcl", Source: []byte(body.JobHCL), Strict: true}
	if body.Variables != "" {
		cfg.VarFiles = []jobspec.VarFile{{Path: "variables", Source: []byte(body.Variables)}}
	}
	j, err := jobspec.Parse(cfg)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	if body.Canonicalize {
		convert.Canonicalize(j, s.cfg.Region, ids.Namespace(r.ns))
	}
	return j, nil
}
