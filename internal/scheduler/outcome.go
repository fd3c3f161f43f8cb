package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/scheduler/diff"
)

// retryWindow lets failed allocs whose pauses end close to each other share one evaluation.
const retryWindow = 5 * time.Second

// retries sees to it that every failed alloc that waits for its pause has an evaluation that will replace it.
func (r *run) retries(groups []*groupRun) {
	var later []diff.Later
	for _, g := range groups {
		for _, l := range g.result.Later {
			if !r.awaited(l.Alloc.FollowupEval) {
				later = append(later, l)
			}
		}
	}
	slices.SortFunc(later, func(a, b diff.Later) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(string(a.Alloc.ID), string(b.Alloc.ID))
	})
	var open *eval.Eval
	var until time.Time
	for _, l := range later {
		if open == nil || l.At.After(until) {
			until = l.At.Add(retryWindow)
			open = r.child("retry "+string(l.Alloc.ID), eval.TriggerRetryFailed, eval.StatusPending)
			open.StatusDescription = "replaces failed allocs after their pause"
			r.plan.Evals = append(r.plan.Evals, open)
		}
		open.WaitUntil = l.At // the last of the window: all of them are due then
		r.plan.Retry = append(r.plan.Retry, Retry{l.Alloc.ID, open.ID})
	}
}

// awaited reports an evaluation of the job that is still to run, other than this one.
func (r *run) awaited(id ids.Eval) bool {
	if id == "" || id == r.eval.ID {
		return false
	}
	for _, e := range r.view.Jobs.JobEvals(r.eval.Namespace, r.eval.Job) {
		if e.ID == id {
			return e.Status == eval.StatusPending
		}
	}
	return false
}

// child makes an evaluation that follows from this one.
func (r *run) child(what, trigger, status string) *eval.Eval {
	return &eval.Eval{
		ID:             ids.Eval(derive(string(r.eval.ID), what)),
		Namespace:      r.eval.Namespace,
		Priority:       r.eval.Priority,
		Type:           r.eval.Type,
		TriggeredBy:    trigger,
		Job:            r.eval.Job,
		JobModifyIndex: r.eval.JobModifyIndex,
		Status:         status,
		PreviousEval:   r.eval.ID,
		CreateTime:     r.now.UnixNano(),
		ModifyTime:     r.now.UnixNano(),
	}
}

// conclude writes the evaluation's outcome and the blocked evaluation that waits for what is missing: at most one per
// job.
func (r *run) conclude() {
	e := *r.eval
	r.plan.AllAtOnce = !r.job.Stopped() && r.job.AllAtOnce
	e.FailedTGAllocs, e.QueuedAllocations = nil, r.out.Queued
	if len(r.out.Failed) > 0 {
		e.FailedTGAllocs = r.out.Failed
	}
	e.Status, e.StatusDescription = eval.StatusComplete, r.describe()
	failed := len(r.out.Failed) > 0
	waits := failed || r.out.Leaving || len(r.out.Making) > 0
	switch {
	case r.out.Later > 0: // whatever failed is tried again there
		next := r.child("rest", eval.TriggerQueuedAllocs, eval.StatusPending)
		next.StatusDescription = "places what the evaluation before had no room for in its plan"
		e.NextEval = next.ID
		r.plan.Evals = append(r.plan.Evals, next)
		r.retire("", "another evaluation goes on at once")
	case waits && r.eval.Status == eval.StatusBlocked && (!failed || r.eval.TriggeredBy == eval.TriggerQueuedAllocs):
		e.Status, e.TriggeredBy = eval.StatusBlocked, r.blockedTrigger()
	case waits:
		b := r.child("blocked", r.blockedTrigger(), eval.StatusBlocked)
		b.FailedTGAllocs = e.FailedTGAllocs
		b.QueuedAllocations = e.QueuedAllocations
		b.StatusDescription = e.StatusDescription
		if failed {
			e.BlockedEval = b.ID
		} else {
			e.NextEval = b.ID // nothing failed: whoever follows the evaluation goes on there
		}
		r.plan.Evals = append(r.plan.Evals, b)
		r.retire(b.ID, "a newer evaluation waits in its place")
	default:
		r.retire("", "nothing is left to wait for")
	}
	if r.deployment.Active() {
		e.Deployment = r.deployment.ID
	}
	r.plan.Eval = &e
}

func (r *run) blockedTrigger() string {
	switch {
	case len(r.out.Failed) > 0:
		return eval.TriggerQueuedAllocs
	case r.out.Leaving:
		return eval.TriggerRollingUpdate
	}
	return eval.TriggerJobRegister // it goes on when the volumes are there
}

// retire ends the job's other blocked evaluations.
func (r *run) retire(but ids.Eval, why string) {
	for _, old := range r.view.Jobs.JobEvals(r.eval.Namespace, r.eval.Job) {
		if old.Status != eval.StatusBlocked || old.ID == but || old.ID == r.eval.ID {
			continue
		}
		n := *old
		n.Status, n.StatusDescription = eval.StatusCanceled, why
		r.plan.Evals = append(r.plan.Evals, &n)
	}
}

// describe says in one sentence what is left to do.
func (r *run) describe() string {
	var parts []string
	if len(r.beyond) > 0 {
		return r.beyond[0].Error() + "; what runs is left alone, and nothing is placed"
	}
	failed := 0
	for _, name := range sortedNames(r.out.Failed) {
		failed += 1 + r.out.Failed[name].CoalescedFailures
	}
	switch {
	case failed == 1:
		parts = append(parts, "1 alloc waits for a place")
	case failed > 1:
		parts = append(parts, fmt.Sprintf("%d allocs wait for a place", failed))
	}
	if r.out.Later > 0 {
		parts = append(parts,
			fmt.Sprintf("the next evaluation places %d more: one places at most %d", r.out.Later, job.MaxPlacements))
	}
	if n := len(r.out.Making); n > 0 {
		parts = append(parts, making(r.out.Making))
	}
	if r.out.Leaving {
		parts = append(parts, "successors wait for the end of stopped allocs")
	}
	switch halted := r.out.Halted; {
	case halted != nil && r.out.Held == "":
		parts = append(parts, fmt.Sprintf("the update stopped: alloc %s is not healthy: %s",
			ids.Short(halted.ID), halted.Health.Reason))
	case r.out.Held != "":
		parts = append(parts, r.out.Held)
	case r.out.Rolling:
		parts = append(parts, "the update goes on when the new allocs are healthy")
	}
	return strings.Join(parts, "; ")
}

func sortedNames(m map[string]*alloc.Metric) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// making names the first few of the volumes that are being made.
func making(all []ids.Volume) string {
	const named = 3
	var names []string
	for _, id := range all[:min(named, len(all))] {
		names = append(names, fmt.Sprintf("%q", id))
	}
	text := strings.Join(names, ", ")
	switch more := len(all) - named; {
	case len(all) == 1:
		return "volume " + text + " is being made"
	case more > 0:
		text += fmt.Sprintf(" and %d more", more)
	}
	return "volumes " + text + " are being made"
}
