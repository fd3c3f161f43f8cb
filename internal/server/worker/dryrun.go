package worker

import (
	"context"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/scheduler"
	"berth/internal/scheduler/filter"
	"berth/internal/server/planner"
	"berth/internal/server/provision"
	"berth/internal/server/versions"
	"berth/internal/wire"
)

// DryRun returns what a registration of the job would do, and commits nothing.
func (s *Scheduling) DryRun(ctx context.Context, req *wire.JobPlanRequest) (*wire.JobPlanReply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	snap := s.store.Snapshot()
	old := snap.Job(nil, req.Job.Namespace, req.Job.ID)
	now, err := nextVersion(old, req.Job, snap.Index())
	if err != nil {
		return nil, err
	}
	view := planner.ViewOf(snap)
	view.Jobs = &asIf{Jobs: view.Jobs, job: now}
	made := provision.Missing(snap, now, snap.Job(nil, now.Namespace, now.ID), "", time.Now())
	view.Volumes = asMade(view.Volumes, made)
	e := &eval.Eval{
		ID:             ids.Eval(ids.New()),
		Namespace:      now.Namespace,
		Job:            now.ID,
		Type:           now.Type,
		Priority:       now.Priority,
		TriggeredBy:    eval.TriggerJobRegister,
		Status:         eval.StatusPending,
		JobModifyIndex: now.JobModifyIndex,
	}
	_, why := scheduler.Schedule(view, e, time.Now())
	reply := &wire.JobPlanReply{Old: old, Annotations: map[string]wire.GroupChanges{}, FailedTGAllocs: why.Failed}
	for _, v := range made {
		reply.NewVolumes = append(reply.NewVolumes, v.ID.ID)
	}
	for name, c := range why.Changes {
		reply.Annotations[name] = wire.GroupChanges(c)
	}
	if old != nil {
		reply.JobModifyIndex, reply.Index = old.JobModifyIndex, snap.Index()
	}
	return reply, nil
}

// nextVersion is the job as its registration would store it.
func nextVersion(old, req *job.Job, index uint64) (*job.Job, error) {
	j := *req
	j.CreateIndex = index + 1
	j.Version = 0
	j.JobModifyIndex = index + 1
	if old == nil {
		return &j, nil
	}
	same, err := versions.Same(old, req)
	if err != nil {
		return nil, fault.Note(err, "plan", fmt.Sprintf("job %q", req.ID))
	}
	if same {
		return old, nil
	}
	j.CreateIndex, j.Version = old.CreateIndex, old.Version+1
	return &j, nil
}

// asIf shows the jobs as if one of them had been registered.
type asIf struct {
	scheduler.Jobs
	job *job.Job
}

func (a *asIf) Job(ns ids.Namespace, id ids.Job) *job.Job {
	if ns == a.job.Namespace && id == a.job.ID {
		return a.job
	}
	return a.Jobs.Job(ns, id)
}

// volumesMade shows the volumes as if those that a registration makes had been made.
type volumesMade struct {
	filter.Volumes
	made map[volume.ID]*volume.Volume
}

func asMade(v filter.Volumes, made []*volume.Volume) filter.Volumes {
	out := &volumesMade{Volumes: v, made: map[volume.ID]*volume.Volume{}}
	for _, m := range made {
		m.Status.Phase, m.Status.ExternalID = volume.PhaseReady, m.ID.String() // each is another one
		out.made[m.ID] = m
	}
	return out
}

func (v *volumesMade) Volume(id volume.ID) *volume.Volume {
	if m := v.made[id]; m != nil {
		return m
	}
	return v.Volumes.Volume(id)
}
