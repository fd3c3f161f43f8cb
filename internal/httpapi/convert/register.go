package convert

import (
	"berth/api"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// ToRegistration asks for what a body asks for, with the job that was read of it and what is worth a warning.
func ToRegistration(body *api.JobRegisterRequest, j *job.Job, warnings []string) *wire.JobRegisterRequest {
	req := &wire.JobRegisterRequest{
		Job:            j,
		EnforceIndex:   body.EnforceIndex,
		ModifyIndex:    body.JobModifyIndex,
		Priority:       body.EvalPriority,
		PreserveCounts: body.PreserveCounts,
		Again:          body.Again,
		Warnings:       append(warnings, Overrides(body.PolicyOverride)...),
	}
	if sub := body.Submission; sub != nil {
		req.Submission = &job.Submission{
			Namespace:     j.Namespace,
			Job:           j.ID,
			Source:        sub.Source,
			Format:        sub.Format,
			VariableFlags: sub.VariableFlags,
			Variables:     sub.Variables,
		}
	}
	return req
}

// Registered answers what makes an evaluation of a job.
func Registered(out *wire.JobRegisterReply) *api.JobRegisterResponse {
	return &api.JobRegisterResponse{
		EvalID:          string(out.Eval),
		EvalCreateIndex: out.EvalCreateIndex,
		JobModifyIndex:  out.JobModifyIndex,
		Warnings:        WarningText(out.Warnings),
		Outcome:         out.Outcome,
	}
}

// Stopped answers the stop of a job.
func Stopped(out *wire.JobRegisterReply) *api.JobDeregisterResponse {
	return &api.JobDeregisterResponse{
		EvalID:          string(out.Eval),
		EvalCreateIndex: out.EvalCreateIndex,
		JobModifyIndex:  out.JobModifyIndex,
		Warnings:        WarningText(out.Warnings),
	}
}

// submission shows the version even when it is the first, 0, which a request leaves out.
type submission struct {
	api.JobSubmission
	Version uint64
}

// Submission makes the public form of what a job was made of.
func Submission(s *job.Submission) any {
	return &submission{api.JobSubmission{
		Source:         s.Source,
		Format:         s.Format,
		VariableFlags:  s.VariableFlags,
		Variables:      s.Variables,
		Namespace:      string(s.Namespace),
		JobID:          string(s.Job),
		JobModifyIndex: s.ModifyIndex,
	}, s.Version}
}
