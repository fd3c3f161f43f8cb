package endpoint

import (
	"context"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/wire"
)

func namedJob(j *job.Job) error {
	switch {
	case j == nil:
		return fault.New(fault.Invalid, "", "", "Job must be specified")
	case j.Namespace == "" || j.Namespace == wire.AllNamespaces:
		return fault.New(fault.Invalid, "", fmt.Sprintf("job %q", j.ID), "it names no namespace")
	}
	if err := ids.ValidJob(string(j.ID)); err != nil {
		return fault.Wrap(err, fault.Invalid, "", fmt.Sprintf("job id %q", j.ID))
	}
	return nil
}

func (e *Endpoints) jobRegister(ctx context.Context, req *wire.JobRegisterRequest) (*wire.JobRegisterReply, error) {
	if err := namedJob(req.Job); err != nil {
		return nil, err
	}
	warnings, err := e.admit(e.cfg.Store.Snapshot(), req.Job)
	if err != nil {
		return nil, err
	}
	cmd := &fsm.JobRegister{Job: req.Job, Submission: req.Submission, EnforceIndex: req.EnforceIndex, ModifyIndex: req.ModifyIndex,
		PreserveCounts: req.PreserveCounts, EvalPriority: req.Priority, Seed: ids.New()}
	return e.registered(ctx, cmd, append(append([]string(nil), req.Warnings...), warnings...))
}

func (e *Endpoints) jobDeregister(ctx context.Context, req *wire.JobDeregisterRequest) (*wire.JobRegisterReply, error) {
	return e.registered(ctx, &fsm.JobDeregister{Namespace: req.Namespace, Job: req.Job, Purge: req.Purge,
		NoShutdownDelay: req.NoShutdownDelay, EvalPriority: req.Priority, Seed: ids.New()}, nil)
}

func (e *Endpoints) registered(ctx context.Context, cmd fsm.Command, warnings []string) (*wire.JobRegisterReply, error) {
	done, index, err := fsm.Propose[*fsm.JobRegistered](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	out := &wire.JobRegisterReply{JobModifyIndex: done.JobModifyIndex, Index: index, Warnings: warnings, Outcome: done.Outcome}
	if done.Eval != nil {
		out.Eval, out.EvalCreateIndex = done.Eval.ID, done.Eval.CreateIndex
	}
	return out, nil
}

func (e *Endpoints) jobEvaluate(ctx context.Context, req *wire.JobEvaluateRequest) (*wire.JobRegisterReply, error) {
	return e.evaluated(ctx, &fsm.JobEvaluate{Namespace: req.Namespace, Job: req.Job, ForceReschedule: req.ForceReschedule, Seed: ids.New()})
}

func (e *Endpoints) allocStop(ctx context.Context, req *wire.AllocStopRequest) (*wire.JobRegisterReply, error) {
	return e.evaluated(ctx, &fsm.AllocMigrate{Alloc: req.Alloc, NoShutdownDelay: req.NoShutdownDelay, Seed: ids.New()})
}

func (e *Endpoints) evaluated(ctx context.Context, cmd fsm.Command) (*wire.JobRegisterReply, error) {
	ev, index, err := fsm.Propose[*eval.Eval](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	return &wire.JobRegisterReply{Eval: ev.ID, EvalCreateIndex: ev.CreateIndex, JobModifyIndex: ev.JobModifyIndex, Index: index}, nil
}

func (e *Endpoints) jobValidate(_ context.Context, req *wire.JobValidateRequest) (*wire.JobValidateReply, error) {
	out := &wire.JobValidateReply{}
	if err := namedJob(req.Job); err != nil {
		out.Errors = append(out.Errors, err.Error())
		return out, nil
	}
	snap := e.cfg.Store.Snapshot()
	out.DriverConfigValidated = driversKnown(snap, req.Job)
	warnings, err := e.admit(snap, req.Job)
	out.Warnings = warnings
	if err != nil {
		out.Errors = append(out.Errors, err.Error())
	}
	return out, nil
}
