package endpoint

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/derive/meshentries"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/holders"
	"berth/internal/server/partitions"
	"berth/internal/server/provision"
	"berth/internal/server/state"
	"berth/internal/server/validate"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// jobSubmitted registers a job for whoever sends it. Agents alone register Berth's own jobs: what the bundled plugin is
// stands in them.
func (e *Endpoints) jobSubmitted(
	ctx context.Context, req *wire.JobRegisterRequest,
) (*wire.JobRegisterReply, error) {
	if _, is := wire.PersonOf(ctx); is && req.Job != nil {
		if err := req.Job.Reserved(); err != nil {
			return nil, err
		}
	}
	return e.jobRegister(ctx, req)
}

func (e *Endpoints) jobRegister(ctx context.Context, req *wire.JobRegisterRequest) (*wire.JobRegisterReply, error) {
	if err := validate.JobShape(req.Job); err != nil {
		return nil, err
	}
	e.placed(req.Job)
	snap := e.learned(ctx, req.Job)
	var kept error
	if req.PreserveCounts {
		kept = validate.KeptCounts(req.Job, snap.Job(nil, req.Job.Namespace, req.Job.ID))
	}
	warnings, err := validate.Job(snap, req.Job)
	if err = errors.Join(kept, err); err != nil {
		return nil, err
	}
	cmd := &fsm.JobRegister{
		Job:            req.Job,
		Submission:     req.Submission,
		EnforceIndex:   req.EnforceIndex,
		ModifyIndex:    req.ModifyIndex,
		PreserveCounts: req.PreserveCounts,
		Again:          req.Again,
		EvalPriority:   req.Priority,
		Seed:           ids.New(),
	}
	return e.registered(ctx, cmd, append(append([]string(nil), req.Warnings...), warnings...))
}

// placed gives a job that names no node pool that of its namespace, by the state that it returns, and what has none
// the identities for Consul that the servers have for such.
func (e *Endpoints) placed(j *job.Job) *state.Snap {
	s := e.cfg.Store.Snapshot()
	if j != nil {
		partitions.Place(s, j)
		e.cfg.ForConsul.Give(j)
	}
	return s
}

// learned returns a state in which it is known what the plugins can do that are to make volumes for a job.
func (e *Endpoints) learned(ctx context.Context, j *job.Job) *state.Snap {
	s := e.cfg.Store.Snapshot()
	asked := map[ids.Plugin]bool{}
	for _, v := range provision.Missing(s, j, s.Job(nil, j.Namespace, j.ID), "", time.Now()) {
		if p := v.Spec.Plugin; !asked[p] {
			asked[p] = true
			s = volumes.Learned(ctx, e.cfg.Store, p)
		}
	}
	return s
}

func (e *Endpoints) jobDeregister(ctx context.Context, req *wire.JobDeregisterRequest) (*wire.JobRegisterReply, error) {
	snap := e.cfg.Store.Snapshot()
	warnings := holders.Deserted(snap, req.Namespace, req.Job, req.Purge)
	if j := snap.Job(nil, req.Namespace, req.Job); j != nil {
		for _, entry := range meshentries.Of(j, "") {
			warnings = append(warnings, "Consul keeps the entry "+entry.Kind+" "+strconv.Quote(entry.Name)+
				", for other gateways of that name; to delete it: "+entry.Delete())
		}
	}
	return e.registered(ctx, &fsm.JobDeregister{
		Namespace:       req.Namespace,
		Job:             req.Job,
		Purge:           req.Purge,
		NoShutdownDelay: req.NoShutdownDelay,
		EvalPriority:    req.Priority,
		Seed:            ids.New(),
	}, warnings)
}

// jobStart registers a stopped job once more as it is stored: of Berth's own jobs, too, which nobody may change.
func (e *Endpoints) jobStart(ctx context.Context, req *wire.JobStartRequest) (*wire.JobRegisterReply, error) {
	snap := e.cfg.Store.Snapshot()
	old := snap.Job(nil, req.Namespace, req.Job)
	if old == nil {
		way := "it may have been forgotten, as by -purge: run its file again: berth job run FILE"
		if req.Namespace == ids.ReservedNamespace {
			way = "it may have been forgotten, as by -purge: an agent with local_csi registers it again when it starts"
		}
		return nil, fault.WithHint(
			fault.New(fault.NotFound, "start", fmt.Sprintf("job %q", req.Job), "there is no such job"), way)
	}
	j := *old
	j.Stop = false
	again := &wire.JobRegisterRequest{Job: &j, EnforceIndex: true, ModifyIndex: old.JobModifyIndex}
	for s := range snap.Submissions(nil, req.Namespace, req.Job) {
		if again.Submission == nil || s.Version > again.Submission.Version {
			again.Submission = s
		}
	}
	return e.jobRegister(ctx, again)
}

func (e *Endpoints) registered(
	ctx context.Context, cmd fsm.Command, warnings []string,
) (*wire.JobRegisterReply, error) {
	done, index, err := fsm.Propose[*fsm.JobRegistered](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	out := &wire.JobRegisterReply{
		JobModifyIndex: done.JobModifyIndex,
		Index:          index,
		Warnings:       warnings,
		Outcome:        done.Outcome,
	}
	if done.Eval != nil {
		out.Eval, out.EvalCreateIndex = done.Eval.ID, done.Eval.CreateIndex
	}
	return out, nil
}

func (e *Endpoints) jobEvaluate(ctx context.Context, req *wire.JobEvaluateRequest) (*wire.JobRegisterReply, error) {
	return e.evaluated(ctx,
		&fsm.JobEvaluate{Namespace: req.Namespace, Job: req.Job, ForceReschedule: req.ForceReschedule, Seed: ids.New()})
}

func (e *Endpoints) allocStop(ctx context.Context, req *wire.AllocStopRequest) (*wire.JobRegisterReply, error) {
	return e.evaluated(ctx, &fsm.AllocMigrate{
		Alloc:           req.Alloc,
		NoShutdownDelay: req.NoShutdownDelay,
		Reschedule:      req.Reschedule,
		Seed:            ids.New(),
	})
}

func (e *Endpoints) evaluated(ctx context.Context, cmd fsm.Command) (*wire.JobRegisterReply, error) {
	ev, index, err := fsm.Propose[*eval.Eval](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	return &wire.JobRegisterReply{
		Eval:            ev.ID,
		EvalCreateIndex: ev.CreateIndex,
		JobModifyIndex:  ev.JobModifyIndex,
		Index:           index,
	}, nil
}

func (e *Endpoints) jobValidate(_ context.Context, req *wire.JobValidateRequest) (*wire.JobValidateReply, error) {
	out := &wire.JobValidateReply{}
	snap := e.placed(req.Job)
	out.DriverConfigValidated = req.Job != nil && validate.DriversKnown(snap, req.Job)
	warnings, findings := validate.Findings(snap, req.Job)
	out.Warnings = warnings
	for _, one := range findings {
		out.Errors = append(out.Errors, one.Error())
	}
	return out, nil
}
