package fsm

import (
	"fmt"
	"iter"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/allocreport"
	"berth/internal/server/state"
)

func init() {
	Register[AllocClientUpdate]("alloc-client-update", 1, "server/endpoint/nodes")
	Register[AllocMigrate]("alloc-migrate", 1, "server/endpoint")
}

func collect[T any](in iter.Seq[*T]) []*T { return slices.Collect(in) }

// AllocClientUpdate takes over what nodes say of their allocs: ID, Node, ClientStatus, ClientDescription, TaskStates,
// Checks, and Network, which is left where a report has none.
// Reports of many nodes may share one command.
type AllocClientUpdate struct {
	Allocs []*alloc.Alloc
	Seed   string
}

// Releases lets ends of tasks be recorded when the disk is nearly full: they free what the tasks held.
func (c *AllocClientUpdate) Releases() bool { return true }

// Apply returns the evaluations ([]ids.Eval) that the reports call for: a failed alloc is to be replaced. Allocs that
// are unknown or belong to another node are passed over.
func (c *AllocClientUpdate) Apply(tx *state.Tx, st Stamp) (any, error) {
	var evals []ids.Eval
	for _, reported := range c.Allocs {
		old := tx.Alloc(nil, reported.ID)
		if old == nil || old.Node != reported.Node || !allocreport.Advances(old, reported) {
			continue
		}
		n := *old
		n.ClientStatus, n.ClientDescription = reported.ClientStatus, reported.ClientDescription
		if reported.TaskStates != nil {
			n.TaskStates = reported.TaskStates
		}
		if reported.Checks != nil {
			n.Checks = reported.Checks
		}
		n.Network = reported.NetworkOr(old.Network)
		n.ComeBack(old, st.Time)
		healthByReport(tx, st, old, &n)
		n.ModifyTime = st.Time.UnixNano()
		tx.PutAlloc(&n)
		if n.ClientTerminal() && !old.ClientTerminal() {
			releaseClaims(tx, st, n.ID)
		}
		if trigger, j := allocreport.Reaction(&tx.Snap, old, &n); trigger != "" {
			if e := followUp(tx, c.Seed, trigger, j); !slices.Contains(evals, e.ID) {
				evals = append(evals, e.ID)
			}
		}
	}
	return evals, nil
}

// AllocMigrate asks to stop an alloc and to place its replacement.
type AllocMigrate struct {
	Alloc           ids.Alloc
	NoShutdownDelay bool
	Reschedule      bool // it is shown as rescheduled, not as migrated
	Seed            string
}

// Apply returns the *eval.Eval.
func (c *AllocMigrate) Apply(tx *state.Tx, st Stamp) (any, error) {
	old := tx.Alloc(nil, c.Alloc)
	if old == nil {
		return nil, fault.New(fault.NotFound, "stop", fmt.Sprintf("alloc %q", c.Alloc), "alloc not found")
	}
	if !old.Terminal() {
		n := *old
		n.Migrate, n.NoShutdownDelay = true, old.NoShutdownDelay || c.NoShutdownDelay
		n.Replace = c.Reschedule // what was asked last is shown
		n.AllocModifyIndex, n.ModifyTime = st.Index, st.Time.UnixNano()
		tx.PutAlloc(&n)
	}
	j := tx.Job(nil, old.Namespace, old.Job)
	if j == nil {
		if j = tx.JobOf(nil, old); j == nil {
			return nil, jobNotFound(old.Namespace, old.Job)
		}
	}
	return followUp(tx, c.Seed, eval.TriggerAllocStop, j), nil
}

// forceReschedule lets a job's failed allocs be replaced without waiting for their delay.
func forceReschedule(tx *state.Tx, st Stamp, j *job.Job) {
	for _, a := range collect(tx.AllocsByJob(nil, j.Namespace, j.ID)) {
		held := a.OutcomeUnknown()
		failed := a.ClientStatus == alloc.ClientFailed && a.DesiredStatus == alloc.DesiredRun
		if (failed || held) && a.NextAlloc == "" && !a.ForceReschedule {
			n := *a
			n.ForceReschedule = true
			n.AllocModifyIndex, n.ModifyTime = st.Index, st.Time.UnixNano()
			tx.PutAlloc(&n)
		}
	}
}

// runAgain lets what a job has completed be placed anew, as after a stop, and what has failed.
func runAgain(tx *state.Tx, st Stamp, j *job.Job) {
	for _, a := range collect(tx.AllocsByJob(nil, j.Namespace, j.ID)) {
		if a.ClientStatus == alloc.ClientComplete && !a.ServerTerminal() {
			stopAlloc(tx, st, a, AllocStop{Description: "its job was run again"})
		}
	}
	forceReschedule(tx, st, j)
}

// stopAlloc gives an alloc up from the servers' side.
func stopAlloc(tx *state.Tx, st Stamp, old *alloc.Alloc, s AllocStop) {
	n := *old
	n.DesiredStatus, n.DesiredDescription = s.DesiredStatus, s.Description
	if n.DesiredStatus == "" {
		n.DesiredStatus = alloc.DesiredStop
	}
	if s.ClientStatus != "" && !old.ClientTerminal() {
		n.ClientStatus, n.ClientDescription = s.ClientStatus, s.Description
	}
	if s.FollowupEval != "" {
		n.FollowupEval = s.FollowupEval
	}
	n.AllocModifyIndex, n.ModifyTime = st.Index, st.Time.UnixNano()
	tx.PutAlloc(&n)
	dropQueued(tx, n.ID)
	if n.ClientTerminal() && !old.ClientTerminal() {
		releaseClaims(tx, st, n.ID)
	}
}
