// Package scaling owns the command by which a group of a job gets another count, and by which it is remembered that it
// did, or why it did not. Packages of the server half may import it.
package scaling

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/deploying"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

func init() { fsm.Register[Scale]("job-scale", job.SchemaScaling, "server/endpoint/scaling") }

// Scale gives a group another count, as a new version of its job, and remembers it. Without a count it is remembered
// what was said.
type Scale struct {
	Namespace   ids.Namespace
	Job         ids.Job
	Group       string
	Count       *int64 // nil: it stays
	Message     string
	Error       bool
	Meta        map[string]any
	ModifyIndex uint64 // the job must have this JobModifyIndex; 0: any
	Seed        string
}

// Apply returns a *fsm.JobRegistered.
func (c *Scale) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	old := tx.Job(nil, c.Namespace, c.Job)
	if err := c.check(tx, old); err != nil {
		return nil, err
	}
	out := &fsm.JobRegistered{Outcome: fsm.Unchanged, Version: old.Version, JobModifyIndex: old.JobModifyIndex}
	event := &job.ScalingEvent{
		Count:         c.Count,
		PreviousCount: int64(old.Group(c.Group).Count),
		Error:         c.Error,
		Message:       c.Message,
		Meta:          c.Meta,
		Time:          st.Time.UnixNano(),
		CreateIndex:   st.Index,
	}
	if c.Count != nil {
		var err error
		if out, err = c.scale(tx, st, old); err != nil {
			return nil, err
		}
		if out.Eval != nil {
			event.Eval = out.Eval.ID
		}
	}
	all := tx.Scalings(nil, c.Namespace, c.Job)
	if all == nil {
		all = &job.Scalings{Namespace: c.Namespace, Job: c.Job}
	}
	tx.PutScalings(all.With(c.Group, event))
	return out, nil
}

// scale registers the job with the other count.
func (c *Scale) scale(tx *state.Tx, st fsm.Stamp, old *job.Job) (*fsm.JobRegistered, error) {
	scaled, err := old.Scaled(c.Group, *c.Count)
	if err != nil {
		return nil, err
	}
	again := &fsm.JobRegister{
		Job:        scaled,
		Submission: tx.Submission(nil, c.Namespace, c.Job, old.Version),
		Seed:       c.Seed,
	}
	done, err := again.Apply(tx, st)
	if err != nil {
		return nil, err
	}
	out := done.(*fsm.JobRegistered)
	if out.Eval != nil {
		e := *out.Eval
		e.TriggeredBy = eval.TriggerScaling
		tx.PutEval(&e)
		out.Eval = &e
	}
	return out, nil
}

// check says why a job is not scaled, or nothing is remembered of it. The texts are what clients of this API know.
func (c *Scale) check(tx *state.Tx, old *job.Job) error {
	refuse := func(kind fault.Kind, hint, text string) error {
		return fault.WithHint(fault.New(kind, "scale", fmt.Sprintf("job %q", c.Job), text), hint)
	}
	switch {
	case old == nil:
		return refuse(fault.NotFound, "", "job not found")
	case c.ModifyIndex != 0 && c.ModifyIndex != old.JobModifyIndex:
		return refuse(fault.Conflict, "look at it again", fmt.Sprintf("Enforcing job modify index %d: job exists with "+
			"conflicting job modify index: %d", c.ModifyIndex, old.JobModifyIndex))
	case old.Group(c.Group) == nil:
		return refuse(fault.Invalid, "", fmt.Sprintf("it has no group %q", c.Group))
	case c.Count == nil:
		return nil
	}
	if deploying.Active(&tx.Snap, nil, c.Namespace, c.Job) != nil {
		return fault.New(fault.Invalid, "", "", "job scaling blocked due to active deployment")
	}
	return nil
}
