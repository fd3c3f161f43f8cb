package httpapi

import (
	"strconv"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/jobdiff"
	"berth/internal/model/job"
	"berth/internal/wire"
)

var jobVersions = calls.Read(wire.JobVersions, calls.ByName,
	func(r *calls.Request, out *wire.JobVersionsReply) (any, error) {
		if len(out.Versions) == 0 {
			return nil, calls.Missing("job versions not found")
		}
		reply := &api.JobVersionsResponse{}
		for i, j := range out.Versions {
			reply.Versions = append(reply.Versions, convert.FromJob(j, out.Status, ""))
			if r.Flag("diffs") && i+1 < len(out.Versions) {
				reply.Diffs = append(reply.Diffs, jobdiff.Of(out.Versions[i+1], j))
			}
		}
		return reply, nil
	})

var jobSubmission = calls.Read(wire.JobSubmission, func(r *calls.Request) (*wire.JobSubmissionRequest, error) {
	q, err := r.Query()
	if err != nil {
		return nil, err
	}
	version, err := strconv.ParseUint(r.Arg("version"), 10, 64)
	if err != nil {
		err = calls.BadRequest("Unable to parse job submission version parameter: it must be a whole number, is " +
			strconv.Quote(r.Arg("version")))
	}
	return &wire.JobSubmissionRequest{Query: q, Job: ids.Job(r.PathValue("id")), Version: version}, err
}, calls.One("job source", func(sub *job.Submission) any { return convert.Submission(sub) }))
