package alloc

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"berth/internal/model/job"
)

// ManualHealth is the health_check of groups whose allocs no clock makes healthy.
const ManualHealth = "manual"

// HealthFacts decide whether an alloc is healthy. All times are of one observer, the leader, and by its monotonic
// clock: since when it waits, since when it knows that the tasks run. No time that a node wrote is compared with them,
// so that neither a jump of a clock nor a difference between two decides anything; what a node says of its tasks'
// starts only tells one run from the next.
type HealthFacts struct {
	Now    time.Time
	Alloc  *Alloc
	Group  *job.TaskGroup // of the alloc's version of the job; nil: it has none
	Memory HealthMemory
}

// HealthMemory is what the observer keeps of an alloc from look to look. The zero value is the first look: a new leader
// counts anew.
type HealthMemory struct {
	Begun  time.Time     // since when the alloc is waited for
	Runs   string        // the runs of its tasks that count; empty while not all of them run
	Since  time.Time     // since when the observer knows of these runs
	Paused time.Time     // since when it waits for storage; zero: it does not
	Waited time.Duration // how long it waited for storage before
}

// HealthDo is what to do about an alloc's health.
type HealthDo uint8

// Values of HealthDo.
const (
	HealthRest  HealthDo = iota // nothing: it is not judged, or what was decided stands
	HealthAwait                 // look again at Until, or when something changed
	HealthGood                  // decide that it is healthy
	HealthBad                   // decide that it is not
)

var healthDoNames = [...]string{"rest", "await", "good", "bad"}

func (d HealthDo) String() string { return healthDoNames[d] }

// HealthResult is what follows from the facts.
type HealthResult struct {
	Do     HealthDo
	Until  time.Time // zero: nothing changes by time alone
	Reason string    // with HealthBad
	Memory HealthMemory
}

// Judged reports whether an alloc's health is decided at all: those of services and of system jobs that should run. The
// end of a batch job's alloc says how it went, and what is to stop need not be well.
func Judged(a *Alloc, g *job.TaskGroup) bool {
	return !job.RunsToEnd(a.JobType) && g != nil && g.Update != nil && !a.ServerTerminal() &&
		a.ClientStatus != ClientLost && a.ClientStatus != ClientUnknown
}

// NextHealth decides about an alloc whose health is open, or that was not healthy and may have become so.
func NextHealth(f HealthFacts) HealthResult {
	a, v := f.Alloc, HealthResult{Memory: f.Memory}
	switch {
	case !Judged(a, f.Group) || a.Healthy():
		return v
	case a.ClientTerminal() && a.Unhealthy():
		return v
	case a.ClientTerminal():
		v.Do, v.Reason = HealthBad, endedReason(a, f.Group)
		return v
	}
	v.Memory = f.remember()
	if f.Group.Update.HealthCheck == ManualHealth {
		return v
	}
	return f.byTime(v)
}

// byTime compares what is remembered with the bounds of the group. The time spent waiting for storage does not count
// against the deadline; who runs, but would be healthy only after it, is late.
func (f HealthFacts) byTime(v HealthResult) HealthResult {
	m, u := v.Memory, f.Group.Update
	var healthyAt, deadline time.Time
	if m.Runs != "" {
		healthyAt = m.Since.Add(u.MinHealthyTime)
	}
	if u.HealthyDeadline > 0 && m.Paused.IsZero() && !f.Alloc.Unhealthy() {
		deadline = m.Begun.Add(u.HealthyDeadline + m.Waited)
	}
	inTime := !healthyAt.IsZero() && (deadline.IsZero() || !healthyAt.After(deadline))
	switch {
	case inTime && !f.Now.Before(healthyAt):
		v.Do = HealthGood
	case inTime:
		v.Do, v.Until = HealthAwait, healthyAt
	case deadline.IsZero():
		v.Do = HealthAwait
	case f.Now.Before(deadline):
		v.Do, v.Until = HealthAwait, deadline
	default:
		v.Do, v.Reason = HealthBad, f.late()
	}
	return v
}

// remember brings the memory up to date: another run of a task begins the time anew.
func (f HealthFacts) remember() HealthMemory {
	m := f.Memory
	if m.Begun.IsZero() {
		m.Begun = f.Now
	}
	if runs := runsOf(f.Alloc, f.Group); runs != m.Runs {
		m.Runs, m.Since = runs, f.Now
	}
	switch waits := waitsForStorage(f.Alloc, f.Group); {
	case waits && m.Paused.IsZero():
		m.Paused = f.Now
	case !waits && !m.Paused.IsZero():
		m.Waited, m.Paused = m.Waited+f.Now.Sub(m.Paused), time.Time{}
	}
	return m
}

func (f HealthFacts) late() string {
	text := fmt.Sprintf("it was not healthy within %s", f.Group.Update.HealthyDeadline)
	if s := Describe(f.Alloc, f.Group); s.Trouble != "" {
		return text + ": " + s.Trouble
	}
	for _, t := range f.Group.Tasks {
		if s := f.Alloc.TaskStates[t.Name]; !settled(RoleOf(t), s) {
			return text + fmt.Sprintf(": task %q %s", t.Name, stateWords(s))
		}
	}
	if why := checksFail(f.Alloc, f.Group); why != "" {
		return text + ": " + why
	}
	return text
}

func stateWords(s *TaskState) string {
	if s == nil || s.State == TaskPending {
		return "has not started"
	}
	return "is " + s.State
}

// runsOf names the present runs of an alloc's tasks; empty when one is missing: tasks that run once before or after the
// start must have succeeded, main tasks and sidecars must run.
func runsOf(a *Alloc, g *job.TaskGroup) string {
	if a.ClientStatus != ClientRunning || checksFail(a, g) != "" {
		return ""
	}
	var b strings.Builder
	for _, t := range g.Tasks {
		s := a.TaskStates[t.Name]
		if !settled(RoleOf(t), s) {
			return ""
		}
		if s != nil {
			fmt.Fprintf(&b, "%s %d %d;", t.Name, s.Restarts, s.StartedAt.UnixNano())
		}
	}
	return b.String()
}

// checksFail says why the checks of an alloc do not pass that its health asks for; empty: they do, or it asks for none.
func checksFail(a *Alloc, g *job.TaskGroup) string {
	switch {
	case !g.AskHealth():
		return ""
	case a.Checks == nil:
		return "its checks have not been asked yet"
	}
	return a.Checks.Failing
}

func settled(r TaskRole, s *TaskState) bool {
	switch {
	case r == RolePoststop:
		return true
	case s == nil:
		return false
	case r.Once():
		return s.Successful()
	}
	return s.State == TaskRunning
}

// waitsForStorage reports an alloc whose tasks cannot start for want of its volumes, or of its network: the hooks
// before its first task have not come further, or a task was held back by them.
func waitsForStorage(a *Alloc, g *job.TaskGroup) bool {
	before := a.ClientStatus == ClientPending && len(g.CSIVolumes()) > 0
	for _, s := range a.TaskStates { // in any order: one that waits is enough, and all must be at their beginning
		n := len(s.Events)
		if s.State == TaskPending && n > 0 && s.Events[n-1].Waits() {
			return true
		}
		before = before && s.State == TaskPending && (n == 0 || s.Events[n-1].Type == EventReceived)
	}
	return before
}

// StorageTrouble says why an alloc waits for its storage, or has failed for the sake of it; empty: it has not.
func StorageTrouble(a *Alloc, g *job.TaskGroup) string {
	if g == nil || len(g.Volumes) == 0 {
		return ""
	}
	if !a.ClientTerminal() && waitsForStorage(a, g) {
		return cmp.Or(waits(a), "its volumes are not there yet")
	}
	if a.ClientStatus != ClientFailed {
		return ""
	}
	for _, t := range g.Tasks {
		if s := a.TaskStates[t.Name]; s != nil {
			if e := lastEnd(s); e != nil && e.Details[DetailStorage] == "true" {
				return cmp.Or(e.DisplayMessage, e.Message)
			}
		}
	}
	return ""
}

// HealthByReport is what a node's report decides about an alloc without a look at a clock: HealthBad, when it ended
// though it should run; HealthAwait, when it was healthy and is to be judged again, because a task that ran ended or
// runs anew; HealthRest otherwise.
func HealthByReport(old, now *Alloc, g *job.TaskGroup) (HealthDo, string) {
	switch {
	case !Judged(now, g):
		return HealthRest, ""
	case now.ClientTerminal() && !old.ClientTerminal():
		return HealthBad, endedReason(now, g)
	case g.Update.HealthCheck == ManualHealth: // what a person said stands
	case now.Healthy() && runsOf(old, g) != runsOf(now, g):
		return HealthAwait, ""
	}
	return HealthRest, ""
}

func endedReason(a *Alloc, g *job.TaskGroup) string {
	if a.ClientDescription == StoppedWithAgent {
		return "it was stopped together with its agent"
	}
	if s := Describe(a, g); s.Trouble != "" {
		return s.Trouble
	}
	if a.ClientStatus == ClientComplete {
		return "it ended though it should run"
	}
	return a.ClientDescription
}
