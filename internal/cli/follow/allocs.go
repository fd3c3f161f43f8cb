package follow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/api"
	"berth/internal/cli/kit"
	"berth/internal/cli/rollout"
)

// reporter says what is new of a job's allocations, each thing once.
type reporter struct {
	f        *Follower
	first    *api.Evaluation
	stories  map[string]*story
	reported map[string]bool
	progress string // of the deployment, as it was reported last
}

// story is what has been reported of one allocation.
type story struct {
	reported map[string]bool // sentences
	since    int64           // events up to this time are old
	state    string
}

func (t *reporter) report(r *rollout.Rollout) {
	now := time.Now()
	for _, g := range r.Groups {
		for _, a := range g.Fresh {
			t.fresh(g, a, now)
		}
		for _, a := range g.Leaving {
			t.waiting(g, a, now)
		}
	}
	if t.f.Wait {
		for _, e := range r.Unplaced {
			if key := fmt.Sprint(e.ID, e.ModifyIndex); !t.reported[key] && e.ID != t.first.BlockedEval {
				t.reported[key] = true
				t.f.heading("Not everything could be placed yet")
				Explain(t.f.Env.Out, "    ", e.FailedTGAllocs, e.QueuedAllocations, t.f.Verbose)
			}
		}
	}
}

func (t *reporter) story(a *api.AllocationListStub) *story {
	s := t.stories[a.ID]
	if s != nil {
		return s
	}
	s = &story{reported: map[string]bool{}}
	t.stories[a.ID] = s
	if a.CreateIndex >= t.first.CreateIndex {
		if a.EvalID != t.first.ID {
			t.f.line("Allocation %q created: group %q on node %q", t.f.id(a.ID), a.TaskGroup, nodeName(a))
		}
		return s
	}
	for _, task := range a.TaskStates {
		for _, e := range task.Events {
			s.since = max(s.since, e.Time) // the greatest, in whatever order
		}
	}
	return s
}

// fresh tells what happens to an allocation of the version that is followed.
func (t *reporter) fresh(g *rollout.Group, a *api.AllocationListStub, now time.Time) {
	s := t.story(a)
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		for _, e := range a.TaskStates[name].Events {
			t.event(a, s, name, e)
		}
	}
	if state := stateOf(a); state != s.state {
		s.state = state
		if state != "" && g.Waiting(a, now) == "" { // which says that it runs, and more
			t.f.line("Allocation %q %s", t.f.id(a.ID), state)
		}
	}
	t.waiting(g, a, now)
}

func (t *reporter) event(a *api.AllocationListStub, s *story, task string, e *api.TaskEvent) {
	text := e.DisplayMessage
	if text == "" {
		text = e.Message
	}
	key := text // a wait is reported once, however often and for how many tasks it comes
	if e.Type == api.TaskStarted || slices.Contains(ends, e.Type) {
		key = fmt.Sprint(task, e.Time, text)
	}
	if e.Time <= s.since || e.Type == api.TaskReceived || text == "" || s.reported[key] {
		return
	}
	s.reported[key] = true
	t.f.line("Allocation %q, task %q: %s", t.f.id(a.ID), task, text)
}

// waiting says what an allocation waits for. The time until it is healthy is reported once for each run of its tasks.
func (t *reporter) waiting(g *rollout.Group, a *api.AllocationListStub, now time.Time) {
	text := g.Waiting(a, now)
	if text == "" {
		return
	}
	key := text
	if a.Phase() == api.AllocPhaseRunning {
		key = "running"
		for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
			key += fmt.Sprint(" ", a.TaskStates[name].Restarts)
		}
	}
	s := t.stories[a.ID]
	if s == nil {
		s = &story{reported: map[string]bool{}}
		t.stories[a.ID] = s
	}
	// an event may have reported it already
	if !s.reported[key] && !(a.Standing != nil && s.reported[a.Standing.Waits]) {
		s.reported[key] = true
		t.f.line("Allocation %q %s", t.f.id(a.ID), text)
	}
}

// stateOf is what is worth reporting of an allocation's state: events report the rest.
func stateOf(a *api.AllocationListStub) string {
	phase, health := a.Phase(), rollout.Health(a)
	switch {
	case slices.Contains(reportedOtherwise, phase):
		return ""
	case health == rollout.Healthy && phase == api.AllocPhaseRunning:
		return "is running and healthy"
	case health == rollout.Unhealthy && phase == api.AllocPhaseRunning:
		return "is running, and not healthy: " + kit.OneSentence(a.DeploymentStatus.Reason)
	}
	switch phase {
	case api.AllocClientStatusComplete:
		return "has completed"
	case api.AllocClientStatusFailed:
		return "has failed"
	}
	return "is " + phase
}

// reportedOtherwise are the phases that events, or what is waited for, report.
var reportedOtherwise = []string{api.AllocPhasePending, api.AllocPhaseRestarting, api.AllocPhaseStopping,
	api.AllocPhaseReleasing}

// ends are the events after which a task does not run.
var ends = []string{api.TaskTerminated, api.TaskRestarting}
