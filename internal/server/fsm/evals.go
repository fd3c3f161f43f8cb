package fsm

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

func init() {
	Register[EvalUpdate]("eval-update", 1, "server/worker")
	Register[JobEvaluate]("job-evaluate", 1, "server/endpoint")
}

// EvalUpdate creates or replaces evaluations. One that is terminal stays as it ended.
type EvalUpdate struct{ Evals []*eval.Eval }

// Apply returns nil.
func (c *EvalUpdate) Apply(tx *state.Tx, _ Stamp) (any, error) {
	putEvals(tx, c.Evals)
	return nil, nil
}

func putEvals(tx *state.Tx, evals []*eval.Eval) {
	for _, e := range evals {
		if old := tx.Eval(nil, e.ID); old != nil {
			if old.Terminal() && !e.Terminal() {
				continue
			}
			e.CreateTime = old.CreateTime
		}
		tx.PutEval(e)
	}
}

// JobEvaluate makes a new evaluation of a job. ForceReschedule lets failed allocs be replaced at once.
type JobEvaluate struct {
	Namespace       ids.Namespace
	Job             ids.Job
	ForceReschedule bool
	Seed            string
}

// Apply returns the *eval.Eval.
func (c *JobEvaluate) Apply(tx *state.Tx, st Stamp) (any, error) {
	j := tx.Job(nil, c.Namespace, c.Job)
	if j == nil {
		return nil, jobNotFound(c.Namespace, c.Job)
	}
	if c.ForceReschedule {
		forceReschedule(tx, st, j)
	}
	return followUp(tx, c.Seed, eval.TriggerJobRegister, j), nil
}

func jobNotFound(ns ids.Namespace, id ids.Job) error {
	return fault.New(fault.NotFound, "", fmt.Sprintf("job %q in namespace %q", id, ns), "job not found")
}

// NewEval makes a pending evaluation of a job whose id follows from a seed that the proposer chose and from the job:
// the same command makes the same evaluation on every server, and one for each job.
func NewEval(seed, trigger string, j *job.Job) *eval.Eval {
	return &eval.Eval{
		ID:             ids.Eval(ids.Derived(seed, string(j.Namespace), string(j.ID))),
		Namespace:      j.Namespace,
		Priority:       j.Priority,
		Type:           j.Type,
		TriggeredBy:    trigger,
		Job:            j.ID,
		JobModifyIndex: j.JobModifyIndex,
		Status:         eval.StatusPending,
	}
}

func followUp(tx *state.Tx, seed, trigger string, j *job.Job) *eval.Eval {
	e := NewEval(seed, trigger, j)
	if old := tx.Eval(nil, e.ID); old != nil {
		return old
	}
	tx.PutEval(e)
	return e
}
