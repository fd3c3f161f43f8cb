// Package sandbox owns the evaluation of job files that came over the network, in children (base/confined).
//
// The agent makes a Parser and hands it to httpapi; cmd/berth runs Main in the child.
package sandbox

import (
	"bytes"
	"encoding/json"
	"io"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/jobrules"
	"berth/jobspec"
)

// Request is one job file to evaluate.
type Request struct {
	Source    string
	Variables string
	// Canonicalize fills in the defaults, with these for the job's region and namespace.
	Canonicalize bool
	Region       string
	Namespace    ids.Namespace
}

// Evaluate evaluates a job file in this process, without any bound, and returns the job that clients would send as
// JSON. The error is of the file's author. Functions that read files are off.
func Evaluate(req *Request) (json.RawMessage, error) {
	// Whoever has a file translated may not want to run it here: what is not built is refused where a job is submitted.
	cfg := jobspec.ParseConfig{
		Path:       "job.nomad.hcl",
		Source:     []byte(req.Source),
		Strict:     true,
		AnyFeature: true,
		AnyName:    true,
	}
	if req.Variables != "" {
		cfg.VarFiles = []jobspec.VarFile{{Path: "variables", Source: []byte(req.Variables)}}
	}
	j, err := jobspec.Parse(cfg)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "", "")
	}
	if req.Canonicalize {
		places := j.Datacenters
		jobrules.Canonicalize(j, req.Region, req.Namespace)
		j.Datacenters = places // clients leave them to the servers
		for _, g := range j.TaskGroups {
			if *j.Type == api.JobTypeService && g.Migrate == nil {
				g.Migrate = convert.Drained()
			}
		}
	}
	return encode(j)
}

// encode writes a job as the HTTP surface does.
func encode(j *api.Job) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(j); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "encode", "the job")
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Main is the child.
func Main(in io.Reader, out io.Writer) int {
	return Work.Main(in, out, func(request []byte) ([]byte, error) {
		req := &Request{}
		if err := json.Unmarshal(request, req); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "read", "what to evaluate")
		}
		return Evaluate(req)
	})
}
