// Package sandbox owns the evaluation of job files that came over the network. Expressions are a language with loops: a
// hundred bytes can ask for hours and gigabytes. So each file is evaluated by a process of its own, the same program in
// another role, which has nothing but its input and its output, is bounded by the kernel, and dies with the request.
//
// The agent makes a Parser and hands it to httpapi; cmd/berth runs Main in the child.
package sandbox

import (
	"bytes"
	"encoding/json"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
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

// reply is what the child answers: one of the three.
type reply struct {
	Job     json.RawMessage `json:",omitempty"`
	Problem string          `json:",omitempty"` // of the file, with its places
	Fault   string          `json:",omitempty"` // of the child
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
		pool, places := j.NodePool, j.Datacenters
		jobrules.Canonicalize(j, req.Region, req.Namespace)
		if j.Datacenters = places; pool == nil { // clients leave both to the servers
			j.NodePool = new("")
		}
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

// answer evaluates a request and tells the author's faults from ours. A panic is ours.
func answer(req *Request) (out reply) {
	ours := func(err error) { out = reply{Fault: err.Error()} }
	run := lifecycle.Isolated("evaluate", func() (err error) {
		out.Job, err = Evaluate(req)
		if fault.Has(err, fault.Invalid) {
			out.Problem, err = err.Error(), nil
		}
		return err
	}, ours)
	if err := run(); err != nil {
		ours(err)
	}
	return out
}
