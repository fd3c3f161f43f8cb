package rollout

import (
	"fmt"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/cli/kit"
)

// The health of an allocation, as people read it.
const (
	Healthy   = "healthy"
	Unhealthy = "unhealthy"
	Undecided = "undecided"
)

// Health is what the servers decided about an allocation; empty for one that is not judged, because it is to stop or of
// a batch job.
func Health(a *api.AllocationListStub) string {
	d := a.DeploymentStatus
	switch {
	case a.DesiredStatus != api.AllocDesiredStatusRun:
		return ""
	case d != nil && d.Healthy != nil && *d.Healthy:
		return Healthy
	case d != nil && d.Healthy != nil:
		return Unhealthy
	case a.JobType == api.JobTypeBatch || a.JobType == api.JobTypeSysBatch || ended(a):
		return ""
	}
	return Undecided
}

// Trouble is what is the matter with an allocation.
type Trouble struct {
	Alloc *api.AllocationListStub
	Task  string // empty: not one task's
	Text  string // how it ended, or why it is not healthy
	Next  string // what happens next by itself
	// Final: it is not healthy, or has failed: that decides how the job stands.
	Final bool

	again bool // it is placed anew by itself
}

// Sentence is the trouble and what follows from it.
func (t Trouble) Sentence() string { return t.Text + "; " + t.Next }

func troubleOf(g *Group, a *api.AllocationListStub, e evals, now time.Time) (Trouble, bool) {
	completed := g.batch && a.ClientStatus == api.AllocClientStatusComplete
	t := Trouble{Alloc: a, Final: Health(a) == Unhealthy || ended(a) && !completed}
	s := a.Standing
	if s == nil {
		s = &api.AllocStanding{}
	}
	t.Task, t.Text = s.Task, s.Trouble
	if d := a.DeploymentStatus; t.Final && d != nil && d.Reason != "" {
		t.Text = d.Reason
	}
	if !t.Final && (t.Text == "" || s.Phase == api.AllocPhaseRunning) {
		return t, false
	}
	if t.Text == "" {
		t.Text = "it is " + a.ClientStatus
		if a.ClientDescription != "" {
			t.Text += ": " + a.ClientDescription
		}
	}
	t.Text = strings.TrimRight(t.Text, ".; ")
	t.Next, t.again = next(a, s, e, now)
	return t, true
}

// next says what happens to an allocation in trouble; again: it gets a successor, and nothing stands in the way of
// that.
func next(a *api.AllocationListStub, s *api.AllocStanding, e evals, now time.Time) (words string, again bool) {
	if text := Restarts(s, now); text != "" && !ended(a) {
		return text, false
	}
	if !ended(a) {
		return fmt.Sprintf(`it still runs ("berth alloc stop %s" has it placed anew)`, kit.ID(a.ID, false)), false
	}
	if f := e.byID[a.FollowupEvalID]; f != nil && retries(f) {
		return fmt.Sprintf("it is placed anew %s, at %s", in(f.WaitUntil.Sub(now)), kit.At(*f.WaitUntil)), true
	}
	switch {
	case e.open:
		return "its replacement is being placed", true
	case len(e.unplaced) > 0:
		for _, u := range e.unplaced {
			if startsNowhere(u.FailedTGAllocs[a.TaskGroup]) {
				return "its replacement waits for another node or another version of the job", false
			}
		}
		return "its replacement waits for a place", false
	}
	typed := ids.Typed(ids.Namespace(a.Namespace), a.JobID)
	return `there is no further try ("berth job eval -force-reschedule ` + typed + `" has it placed anew)`, false
}

// Remainder says when an evaluation places what has no place now.
func Remainder(evaluation string, failed map[string]*api.AllocationMetric) string {
	const other = "as soon as what is in its way has changed"
	when := ""
	for _, m := range failed {
		w := other
		switch {
		case m == nil:
		case m.NodesExhausted > 0:
			w = "as soon as there is capacity for it"
		case startsNowhere(m):
			w = "when another node comes or the job changes: no node that is here starts it"
		}
		if when != "" && when != w {
			w = other
		}
		when = w
	}
	return fmt.Sprintf("Evaluation %q will place the rest %s", evaluation, when)
}

// nowhere reports an evaluation with such a group.
func nowhere(e *api.Evaluation) bool {
	for _, m := range e.FailedTGAllocs {
		if startsNowhere(m) {
			return true
		}
	}
	return false
}

// startsNowhere reports a group that the nodes that could have it have permanently refused to start.
func startsNowhere(m *api.AllocationMetric) bool {
	return m != nil && m.NodesExhausted == 0 && m.ConstraintFiltered[api.FilteredStartRefused] > 0
}

// Restarts says when a task in trouble starts again, and which attempt that is; empty: it does not.
func Restarts(s *api.AllocStanding, now time.Time) string {
	if s.RestartAt == nil {
		return ""
	}
	text := "it restarts " + in(s.RestartAt.Sub(now))
	switch {
	case s.Attempts > 0:
		text += fmt.Sprintf(" (attempt %d of %d)", s.Attempt, s.Attempts)
	case s.Attempt > 0:
		text += fmt.Sprintf(" (attempt %d)", s.Attempt)
	}
	return text
}

// in is a time to come, rounded up to the second.
func in(d time.Duration) string {
	if d <= 0 {
		return "now"
	}
	return "in " + kit.Span(d+time.Second-1)
}

// Waiting says what an allocation waits for before it is as it should be; empty: nothing, or nothing that is known.
func (g *Group) Waiting(a *api.AllocationListStub, now time.Time) string {
	switch phase := a.Phase(); {
	case a.Standing != nil && a.Standing.Orphan != "":
		return "waits for a person: " + a.Standing.Orphan
	case phase == api.AllocPhaseStopping && a.Standing != nil && a.Standing.Waits != "":
		return "is stopping: " + a.Standing.Waits
	case phase == api.AllocPhaseStopping:
		return "is stopping: its tasks have until their kill timeouts"
	case phase == api.AllocPhaseReleasing && a.Standing.Waits != "":
		return "has ended and is releasing what it holds: " + a.Standing.Waits
	case phase == api.AllocPhaseReleasing:
		return "has ended and is releasing what it holds"
	case a.Standing != nil && a.Standing.Waits != "":
		return "waits: " + a.Standing.Waits
	case g.batch || g.manual || !runs(a) || Health(a) != Undecided:
		return ""
	}
	left := g.least
	if since := started(a); !since.IsZero() {
		left = min(max(0, g.least-now.Sub(since)), g.least)
	}
	if g.checked {
		return fmt.Sprintf("runs; it is healthy when its checks have passed for %s", g.least)
	}
	return fmt.Sprintf("runs; it is healthy %s if its tasks run on", in(left))
}

// started is when the youngest run of an allocation's tasks began, by its node's clock.
func started(a *api.AllocationListStub) time.Time {
	var last time.Time
	for _, t := range a.TaskStates {
		if t.StartedAt != nil && t.StartedAt.After(last) { // the latest, in whatever order
			last = *t.StartedAt
		}
	}
	return last
}

// Progress says how far the update of a group is; empty when it is not in the middle of one.
func (r *Rollout) Progress(g *Group) string {
	if len(g.Old) == 0 && !r.replacing(g) {
		return ""
	}
	for _, t := range r.Troubles {
		if t.Final && t.Alloc.TaskGroup == g.Name && len(g.Old) > 0 {
			return fmt.Sprintf("update stopped: allocation %q is not healthy: %s; %s on with the version before",
				kit.ID(t.Alloc.ID, false), t.Sentence(), kit.Count(len(g.Old), "allocation goes", "allocations go"))
		}
	}
	if g.manual && len(g.Old) > 0 && g.Open > 0 {
		return fmt.Sprintf(
			"update stopped: health_check is \"manual\", and no report says that allocation %q is healthy",
			kit.ID(g.Fresh[0].ID, false))
	}
	text := fmt.Sprintf("update in progress: %d of %s healthy at version %d",
		g.Healthy, kit.Count(g.Wanted, "allocation is", "allocations are"), kit.Value(r.job.Version))
	if len(g.Leaving) > 0 {
		text += fmt.Sprintf(", %d of the version before still to end", len(g.Leaving))
	}
	return text
}

// replacing reports a group whose last allocations of an older version have not ended.
func (r *Rollout) replacing(g *Group) bool {
	for _, a := range g.Leaving {
		if a.JobVersion < kit.Value(r.job.Version) && !kit.Value(r.job.Stop) {
			return true
		}
	}
	return false
}

// Sentence says how the job stands when nothing is waited for.
func (r *Rollout) Sentence() string {
	id := kit.Value(r.job.ID)
	well := 0
	open := 0
	wanted := 0
	short := 0
	for _, g := range r.Groups {
		well = well + g.Healthy
		open = open + g.Open
		wanted = wanted + g.Wanted
		short += max(0, g.Wanted-len(g.Fresh)-len(g.Old))
	}
	count := kit.Count(well, "allocation", "allocations")
	switch {
	case r.Outcome == Failed:
		return r.failure()
	case r.Outcome == Short:
		return fmt.Sprintf("job %q lacks %d of %s, and nothing is on its way",
			id, short, kit.Count(wanted, "allocation", "allocations"))
	case wanted == 0:
		return fmt.Sprintf("Job %q has nothing to run", id)
	case isBatch(r.job):
		return fmt.Sprintf("Job %q has completed: %s", id, count)
	case open > 0:
		return fmt.Sprintf(`Job %q runs: %s; that they are healthy is for a person to say (health_check = "manual")`,
			id, kit.Count(well+open, "allocation", "allocations"))
	}
	return fmt.Sprintf("Job %q runs: %s, healthy", id, count)
}

// Past says that what decides how the job stands came before an index, that of a registration, which so has run
// nothing; empty: it did not, or all of it runs.
func (r *Rollout) Past(index uint64) string {
	var decide []*api.AllocationListStub
	for _, t := range r.Troubles {
		if r.Outcome == Failed && t.Final {
			decide = append(decide, t.Alloc)
		}
	}
	for _, g := range r.Groups {
		if r.Outcome == Done && g.batch {
			decide = append(decide, g.Fresh...)
		}
	}
	var last time.Time
	for _, a := range decide {
		if !ended(a) || a.ModifyIndex >= index {
			return ""
		}
		if at := finished(a); at.After(last) {
			last = at
		}
	}
	switch {
	case len(decide) == 0:
		return ""
	case r.Outcome == Failed:
		return fmt.Sprintf("Nothing was run: job %q failed before, at %s", kit.Value(r.job.ID), kit.At(last))
	}
	return fmt.Sprintf(`Nothing was run: job %q had completed before, at %s ("berth job run -again FILE" does)`,
		kit.Value(r.job.ID), kit.At(last))
}

// finished is when the last task of an allocation ended, by its node's clock.
func finished(a *api.AllocationListStub) time.Time {
	var last time.Time
	for _, t := range a.TaskStates {
		if t.FinishedAt != nil && t.FinishedAt.After(last) { // the latest, in whatever order
			last = *t.FinishedAt
		}
	}
	return last
}

// failure names what failed, how, what comes next, and what that means for the rest.
func (r *Rollout) failure() string {
	id := kit.Value(r.job.ID)
	old := 0
	for _, g := range r.Groups {
		old += len(g.Old)
		if p := r.Progress(g); strings.HasPrefix(p, "update stopped") {
			return fmt.Sprintf("job %q: %s", id, p)
		}
	}
	bad := 0
	for _, t := range r.Troubles {
		if t.Final {
			bad++
		}
	}
	for _, t := range r.Troubles {
		if t.Final {
			text := fmt.Sprintf("job %q failed: allocation %q: %s", id, kit.ID(t.Alloc.ID, false), t.Sentence())
			if bad > 1 {
				text += fmt.Sprintf("; %d more failed", bad-1)
			}
			return text
		}
	}
	return fmt.Sprintf("job %q failed", id)
}
