package follow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// steady is how long a new allocation must run before it counts as running: what ends at once never ran.
const steady = time.Second

// story is what has been told of one allocation.
type story struct {
	told    map[string]bool // sentences
	since   int64           // events up to this time are old
	fresh   bool            // it was placed just now
	status  string
	running time.Time // since when it was seen to run, without an end of a task
	settled bool
	failure string
}

// Allocations follows the allocations that should run for a job until each runs, has completed, or has failed. An
// evaluation that placed them tells which are new.
func (f *Follower) Allocations(ctx context.Context, job kit.Ref, eval *api.Evaluation) error {
	stories := map[string]*story{}
	err := watch(ctx, job.Namespace, func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		list, meta, err := f.Client.Jobs().Allocations(ctx, job.ID, false, o)
		if err != nil {
			return false, nil, kit.Doing(err, "follow", "job", job.ID)
		}
		first := len(stories) == 0
		slices.SortStableFunc(list, func(a, b *api.AllocationListStub) int { return cmp.Compare(a.Name, b.Name) })
		waiting := false
		o.WaitTime = 0
		for _, a := range list {
			s := stories[a.ID]
			if s == nil && first && wanted(a, eval) {
				s = newStory(a, eval)
				stories[a.ID] = s
			}
			if s != nil && !s.settled {
				f.tell(a, s)
				waiting = waiting || !s.settled
				if !s.settled && !s.running.IsZero() {
					o.WaitTime = steady // nothing may happen any more, and that is the news
				}
			}
		}
		return !waiting, meta, nil
	})
	if err != nil {
		return f.gaveUp(ctx, err, "berth job status "+job.ID)
	}
	return f.verdict(job, stories)
}

// wanted tells the allocations that belong to what runs now: those of the evaluation, and those that go on from before.
func wanted(a *api.AllocationListStub, eval *api.Evaluation) bool {
	if a.DesiredStatus != api.AllocDesiredStatusRun {
		return false
	}
	return a.EvalID == eval.ID || a.ClientStatus == api.AllocClientStatusPending || a.ClientStatus == api.AllocClientStatusRunning
}

func newStory(a *api.AllocationListStub, eval *api.Evaluation) *story {
	s := &story{told: map[string]bool{}, fresh: a.CreateIndex >= eval.CreateIndex}
	if s.fresh {
		return s
	}
	for _, t := range a.TaskStates {
		for _, e := range t.Events {
			s.since = max(s.since, e.Time)
		}
	}
	return s
}

// tell says what is new of an allocation.
func (f *Follower) tell(a *api.AllocationListStub, s *story) {
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		for _, e := range a.TaskStates[name].Events {
			text := e.DisplayMessage
			if text == "" {
				text = e.Message
			}
			key := text // a wait is told once, however often and for how many tasks it is reported
			if e.Type == api.TaskStarted || slices.Contains(ends, e.Type) {
				key = fmt.Sprint(name, e.Time, text)
			}
			if e.Time <= s.since || e.Type == api.TaskReceived || text == "" || s.told[key] {
				continue
			}
			s.told[key] = true
			f.line("Allocation %q, task %q: %s", f.id(a.ID), name, text)
		}
	}
	if a.ClientStatus != api.AllocClientStatusRunning {
		s.running = time.Time{}
	}
	if s.status != a.ClientStatus && a.ClientStatus != api.AllocClientStatusPending {
		f.line("Allocation %q is %s", f.id(a.ID), a.ClientStatus)
	}
	s.status = a.ClientStatus
	switch a.ClientStatus {
	case api.AllocClientStatusComplete:
		s.settled = true
	case api.AllocClientStatusRunning:
		s.settled = s.runs(a)
	case api.AllocClientStatusFailed, api.AllocClientStatusLost:
		s.settled, s.failure = true, reason(a)
	}
	if !s.settled && a.DesiredStatus != api.AllocDesiredStatusRun {
		s.settled, s.failure = true, "it was stopped before it ran: "+orUnknown(a.DesiredDescription)
	}
}

// runs reports whether an allocation has run for long enough without the end of a task.
func (s *story) runs(a *api.AllocationListStub) bool {
	for _, t := range a.TaskStates {
		if n := len(t.Events); s.fresh && n > 0 && slices.Contains(ends, t.Events[n-1].Type) && t.State != api.TaskStateDead {
			s.running = time.Time{}
			return false
		}
	}
	if s.running.IsZero() {
		s.running = time.Now()
	}
	return !s.fresh || time.Since(s.running) >= steady
}

// ends are the events after which a task does not run.
var ends = []string{api.TaskTerminated, api.TaskRestarting}

// telling are the events that say why a task ended, rather than that it did.
var telling = []string{api.TaskDriverFailure, api.TaskSetupFailure, api.TaskHookFailed, api.TaskFailedValidation, api.TaskArtifactDownloadFailed, api.TaskTerminated}

// reason is the sentence that says best why an allocation failed: the last telling event of a failed task, or else the
// last that failed it.
func reason(a *api.AllocationListStub) string {
	text := a.ClientDescription
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		if !a.TaskStates[name].Failed {
			continue
		}
		last, why := "", ""
		for _, e := range a.TaskStates[name].Events {
			if slices.Contains(telling, e.Type) {
				why = e.DisplayMessage
			}
			if e.FailsTask {
				last = e.DisplayMessage
			}
		}
		if why == "" {
			why = last
		}
		if why != "" {
			return fmt.Sprintf("task %q: %s", name, why)
		}
	}
	return orUnknown(text)
}

// verdict sums up.
func (f *Follower) verdict(job kit.Ref, stories map[string]*story) error {
	var failed []string
	running, complete := 0, 0
	for _, id := range slices.Sorted(maps.Keys(stories)) {
		switch s := stories[id]; {
		case s.failure != "":
			failed = append(failed, id)
		case s.status == api.AllocClientStatusComplete:
			complete++
		default:
			running++
		}
	}
	if len(failed) == 0 {
		switch {
		case running > 0 && complete > 0:
			f.heading("Job %q runs: %s, %d complete", job.ID, kit.Count(running, "allocation", "allocations"), complete)
		case running > 0:
			f.heading("Job %q runs: %s", job.ID, kit.Count(running, "allocation", "allocations"))
		case complete > 0:
			f.heading("Job %q has completed", job.ID)
		default:
			f.heading("Job %q has nothing to run", job.ID)
		}
		return nil
	}
	for _, id := range failed {
		f.Env.Err.Printf("%s\n", f.Env.Err.Red(fmt.Sprintf("Allocation %q failed: %s", f.id(id), kit.OneSentence(stories[id].failure))))
	}
	return fault.WithHint(fault.New(fault.Conflict, "", "", fmt.Sprintf("%d of %s of job %q failed", len(failed), kit.Count(len(stories), "allocation", "allocations"), job.ID)),
		fmt.Sprintf(`see "berth alloc status %s" and "berth alloc logs -stderr %s"`, f.id(failed[0]), f.id(failed[0])))
}
