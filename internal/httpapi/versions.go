package httpapi

import (
	"strconv"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/jobdiff"
	"berth/internal/model/job"
	"berth/internal/wire"
)

var jobVersions = read(wire.JobVersions, byName, func(r *request, out *wire.JobVersionsReply) (any, error) {
	if len(out.Versions) == 0 {
		return nil, missing("job versions not found")
	}
	reply := &api.JobVersionsResponse{}
	for i, j := range out.Versions {
		reply.Versions = append(reply.Versions, convert.FromJob(j, out.Status, ""))
		if r.flag("diffs") && i+1 < len(out.Versions) {
			reply.Diffs = append(reply.Diffs, jobdiff.Of(out.Versions[i+1], j))
		}
	}
	return reply, nil
})

var jobSubmission = read(wire.JobSubmission, func(r *request) (*wire.JobSubmissionRequest, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	version, err := strconv.ParseUint(r.arg("version"), 10, 64)
	if err != nil {
		err = badRequest("Unable to parse job submission version parameter: it must be a whole number, is " +
			strconv.Quote(r.arg("version")))
	}
	return &wire.JobSubmissionRequest{Query: q, Job: ids.Job(r.PathValue("id")), Version: version}, err
}, one("job source", func(sub *job.Submission) any { return convert.Submission(sub) }))
