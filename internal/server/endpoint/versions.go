package endpoint

import (
	"context"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/deployments"
	"berth/internal/server/fsm/tagging"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// jobRevert registers a version of a job again, as its newest one.
func (e *Endpoints) jobRevert(ctx context.Context, req *wire.JobRevertRequest) (*wire.JobRegisterReply, error) {
	snap := e.cfg.Store.Snapshot()
	now := snap.Job(nil, req.Namespace, req.Job)
	refuse := func(kind fault.Kind, format string, args ...any) error {
		return fault.New(kind, "revert", fmt.Sprintf("job %q", req.Job), fmt.Sprintf(format, args...))
	}
	switch {
	case now == nil:
		return nil, refuse(fault.NotFound, "job not found")
	case now.Namespace == ids.ReservedNamespace:
		return nil, now.Reserved()
	case now.Version == req.Version:
		return nil, refuse(fault.Invalid, "can't revert to current version %d", req.Version)
	case req.Prior != nil && *req.Prior != now.Version:
		return nil, refuse(fault.Conflict, "its present version is %d, not %d as the request says; look at it again",
			now.Version, *req.Prior)
	}
	again, err := versionOf(snap, now, req.Version)
	if err != nil {
		return nil, err
	}
	reg := &wire.JobRegisterRequest{
		Job:          again,
		Submission:   snap.Submission(nil, req.Namespace, req.Job, req.Version),
		EnforceIndex: true,
		ModifyIndex:  now.JobModifyIndex,
	}
	return e.jobRegister(ctx, reg)
}

// versionOf is a copy of a version to register again: it runs, whatever the version did.
func versionOf(s *state.Snap, now *job.Job, version uint64) (*job.Job, error) {
	old := s.JobVersion(nil, now.Namespace, now.ID, now.CreateIndex, version)
	if old == nil {
		return nil, fault.WithHint(
			fault.New(fault.NotFound, "", fmt.Sprintf("job %q", now.ID),
				fmt.Sprintf("version %d is not there: it never was, or is forgotten", version)),
			"see which versions there are with: berth job history "+ids.Typed(now.Namespace, now.ID))
	}
	j := *old
	j.Stop = false
	return &j, nil
}

// jobStable notes whether a version of a job is one to go back to.
func (e *Endpoints) jobStable(ctx context.Context, req *wire.JobStableRequest) (*wire.Written, error) {
	_, index, err := e.cfg.Proposer.Propose(ctx, &deployments.Stable{
		Namespace: req.Namespace,
		Job:       req.Job,
		Version:   req.Version,
		Stable:    req.Stable,
	})
	if err != nil {
		return nil, err
	}
	return &wire.Written{Index: index}, nil
}

// jobTag names a version of a job.
func (e *Endpoints) jobTag(ctx context.Context, req *wire.JobTagRequest) (*wire.JobTagReply, error) {
	tag, index, err := fsm.Propose[*job.VersionTag](ctx, e.cfg.Proposer, &tagging.Tag{
		Namespace:   req.Namespace,
		Job:         req.Job,
		Version:     req.Version,
		Name:        req.Name,
		Description: req.Description,
	})
	if err != nil {
		return nil, err
	}
	return &wire.JobTagReply{Tag: *tag, Index: index}, nil
}

// jobUntag takes the name of a version away.
func (e *Endpoints) jobUntag(ctx context.Context, req *wire.JobUntagRequest) (*wire.Written, error) {
	cmd := &tagging.Untag{Namespace: req.Namespace, Job: req.Job, Name: req.Name}
	_, index, err := e.cfg.Proposer.Propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &wire.Written{Index: index}, nil
}
