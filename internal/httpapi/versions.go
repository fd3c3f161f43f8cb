package httpapi

import (
	"slices"
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
		against, err := compared(r, out.Versions)
		if err != nil {
			return nil, err
		}
		reply := &api.JobVersionsResponse{}
		for i, j := range out.Versions {
			reply.Versions = append(reply.Versions, convert.FromJob(j, out.Status, ""))
			switch {
			case against != nil:
				reply.Diffs = append(reply.Diffs, jobdiff.Of(against, j))
			case r.Flag("diffs") && i+1 < len(out.Versions):
				reply.Diffs = append(reply.Diffs, jobdiff.Of(out.Versions[i+1], j))
			}
		}
		return reply, nil
	})

// compared is the version that each one is compared with, by its name or its number; nil: with the one before it, if at
// all.
func compared(r *calls.Request, versions []*job.Job) (*job.Job, error) {
	tag, number := r.Arg("diff_tag"), r.Arg("diff_version")
	switch {
	case tag == "" && number == "" || !r.Flag("diffs"):
		return nil, nil
	case tag != "" && number != "":
		return nil, calls.BadRequest("diff_tag and diff_version cannot both be given: leave one out")
	case tag != "":
		if v := job.Tagged(versions, tag); v != nil {
			return v, nil
		}
		return nil, calls.Missing("tag " + strconv.Quote(tag) + " not found: no version of the job has it")
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil, calls.BadRequest("diff_version must be a whole number, is " + strconv.Quote(number))
	}
	if at := slices.IndexFunc(versions, func(v *job.Job) bool { return v.Version == n }); at >= 0 {
		return versions[at], nil
	}
	return nil, calls.Missing("version " + number + " is not there: it never was, or is forgotten")
}

// How versions of jobs get names, and lose them.
var (
	jobTag = calls.Write(wire.JobTag, func(r *calls.Request) (*wire.JobTagRequest, error) {
		var in api.TagVersionRequest
		if err := r.ReadOptional(&in); err != nil {
			return nil, err
		}
		req := &wire.JobTagRequest{
			Namespace:   r.Namespace,
			Job:         ids.Job(r.PathValue("id")),
			Name:        r.PathValue("tag"),
			Description: in.Description,
		}
		if in.Version > 0 || !in.Latest {
			req.Version = &in.Version
		}
		return req, nil
	}, func(out *wire.JobTagReply) (uint64, any) {
		return out.Index, &api.JobVersionTag{
			Name:        out.Tag.Name,
			Description: out.Tag.Description,
			TaggedTime:  out.Tag.TaggedTime,
		}
	})
	jobUntag = calls.Write(wire.JobUntag, func(r *calls.Request) (*wire.JobUntagRequest, error) {
		return &wire.JobUntagRequest{
			Namespace: r.Namespace,
			Job:       ids.Job(r.PathValue("id")),
			Name:      r.PathValue("tag"),
		}, nil
	}, calls.Empty)
)

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
