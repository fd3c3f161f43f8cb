package fsm

import (
	"cmp"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/server/children"
	"berth/internal/server/deploying"
	"berth/internal/server/partitions"
	"berth/internal/server/provision"
	"berth/internal/server/state"
	"berth/internal/server/versions"
)

func init() {
	Register[JobRegister]("job-register", 1, "server/endpoint")
	Register[JobDeregister]("job-deregister", 1, "server/endpoint")
}

// Needs is what the job's members need: a server of an older version would not know them.
func (c *JobRegister) Needs() uint64 {
	needs := max(workload.Needs(c.Job), c.Job.Schema())
	if c.Job.TriesVersions() {
		needs = max(needs, deployment.Schema)
	}
	if c.Job.HasServices() {
		needs = max(needs, SchemaServices)
	}
	return needs
}

// Apply returns a *JobRegistered.
func (c *JobRegister) Apply(tx *state.Tx, st Stamp) (any, error) {
	old := tx.Job(nil, c.Job.Namespace, c.Job.ID)
	if err := cmp.Or(c.enforce(old), c.Job.Keeps(old), partitions.Admits(&tx.Snap, c.Job)); err != nil {
		return nil, err
	}
	if old != nil && c.PreserveCounts {
		c.Job.KeepCounts(old)
		if over := c.Job.Excesses(); len(over) > 0 { // the counts may have changed since the registration was checked
			return nil, fault.Wrap(over[0], fault.Conflict, "register", fmt.Sprintf("job %q", c.Job.ID))
		}
	}
	out := &JobRegistered{Outcome: Created}
	present := old
	same, err := versions.Same(old, c.Job)
	switch {
	case err != nil:
		return nil, err
	case same:
		out.Outcome = Unchanged
	default:
		if old != nil {
			out.Outcome = Updated
		}
		present = c.store(tx, st, old)
	}
	if err := c.provide(tx, st, old); err != nil {
		return nil, err
	}
	provision.DropAbandoned(tx, old)
	if c.Again {
		runAgain(tx, st, present)
	}
	out.Version, out.JobModifyIndex = present.Version, present.JobModifyIndex
	if present.Launches() {
		return out, nil // there is nothing to place
	}
	out.Eval = NewEval(c.Seed, eval.TriggerJobRegister, present)
	if c.EvalPriority > 0 {
		out.Eval.Priority = c.EvalPriority
	}
	tx.PutEval(out.Eval)
	return out, nil
}

// provide records the volumes that the job says how to make and that are not there. Where one cannot be made nothing is
// registered.
func (c *JobRegister) provide(tx *state.Tx, st Stamp, before *job.Job) error {
	for _, v := range provision.Missing(&tx.Snap, c.Job, before, c.Seed, st.Time) {
		if _, err := (&VolumePut{Volume: v, Seen: modifyIndex(tx.Volume(nil, v.ID))}).Apply(tx, st); err != nil {
			return fault.Note(err, "register", fmt.Sprintf("job %q", c.Job.ID))
		}
	}
	return nil
}

func (c *JobRegister) store(tx *state.Tx, st Stamp, old *job.Job) *job.Job {
	j := c.Job
	j.Stable, j.Version = false, 0
	j.VersionTag = nil // it is the name of another version
	j.SubmitTime = st.Time.UnixNano()
	j.JobModifyIndex = st.Index
	if old != nil {
		j.Version, j.LastLaunch = old.Version+1, old.LastLaunch
		deploying.Cancel(tx, j.Namespace, j.ID, deployment.WhyNewer)
	}
	tx.PutJob(j)
	if c.Submission != nil {
		s := *c.Submission
		s.Namespace = j.Namespace
		s.Job = j.ID
		s.Version = j.Version
		tx.PutSubmission(&s)
	}
	versions.Prune(tx, j)
	return j
}

// enforce holds the registration to the index that its author saw. The texts are what clients look for.
func (c *JobRegister) enforce(old *job.Job) error {
	if !c.EnforceIndex {
		return nil
	}
	var text string
	switch {
	case c.ModifyIndex == 0 && old != nil:
		text = "Enforcing job modify index 0: job already exists"
	case c.ModifyIndex != 0 && old == nil:
		text = fmt.Sprintf("Enforcing job modify index %d: job does not exist", c.ModifyIndex)
	case old != nil && c.ModifyIndex != old.JobModifyIndex:
		text = fmt.Sprintf("Enforcing job modify index %d: job exists with conflicting job modify index: %d",
			c.ModifyIndex, old.JobModifyIndex)
	default:
		return nil
	}
	return fault.New(fault.Conflict, "", "", text)
}

// Apply returns a *JobRegistered.
func (c *JobDeregister) Apply(tx *state.Tx, st Stamp) (any, error) {
	old := tx.Job(nil, c.Namespace, c.Job)
	if old == nil {
		return nil, jobNotFound(c.Namespace, c.Job)
	}
	out := &JobRegistered{Outcome: Updated, Version: old.Version, JobModifyIndex: st.Index}
	deploying.Cancel(tx, c.Namespace, c.Job, deployment.WhyStopped)
	if c.Purge {
		tx.DeleteJob(c.Namespace, c.Job)
		tx.DeleteSubmissions(c.Namespace, c.Job, func(uint64) bool { return false })
		versions.DropUnused(tx, c.Namespace, c.Job)
		if err := c.forgetChildren(tx, st, old); err != nil {
			return nil, err
		}
	} else if !old.Stop {
		j := *old
		j.Stop, j.JobModifyIndex = true, st.Index
		j.VersionTag = nil
		j.Version++
		tx.PutJob(&j)
		versions.Prune(tx, &j)
		out.Version = j.Version
	}
	provision.DropAbandoned(tx, old)
	if c.NoShutdownDelay {
		hurry(tx, st, c.Namespace, c.Job)
	}
	if old.Launches() {
		return out, nil // its children go on: there is nothing to stop
	}
	out.Eval = NewEval(c.Seed, eval.TriggerJobDeregister, old)
	out.Eval.JobModifyIndex = st.Index
	if c.EvalPriority > 0 {
		out.Eval.Priority = c.EvalPriority
	}
	tx.PutEval(out.Eval)
	return out, nil
}

// forgetChildren forgets with a job what it has launched and is over. What goes on goes on without it.
func (c *JobDeregister) forgetChildren(tx *state.Tx, st Stamp, parent *job.Job) error {
	for _, child := range collect(tx.Children(nil, parent)) {
		if children.StandingOf(&tx.Snap, child) != children.Over {
			continue
		}
		d := *c
		d.Job = child.ID
		if _, err := d.Apply(tx, st); err != nil {
			return err
		}
	}
	return nil
}

// Releases lets a job be stopped when the disk is nearly full.
func (c *JobDeregister) Releases() bool { return true }

// hurry marks a job's live allocs so that their tasks stop without their shutdown delay.
func hurry(tx *state.Tx, st Stamp, ns ids.Namespace, id ids.Job) {
	for _, a := range collect(tx.AllocsByJob(nil, ns, id)) {
		if !a.ClientTerminal() && !a.NoShutdownDelay {
			n := *a
			n.NoShutdownDelay, n.AllocModifyIndex = true, st.Index
			n.ModifyTime = st.Time.UnixNano()
			tx.PutAlloc(&n)
		}
	}
}
