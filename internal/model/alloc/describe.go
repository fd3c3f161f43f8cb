package alloc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/model/job"
)

// Phases of an alloc: one word of how it stands. They tell what the client status leaves open: what runs although it is
// to stop, and what has ended but still holds its storage.
const (
	PhasePending    = "pending"
	PhaseRunning    = "running"
	PhaseRestarting = "restarting"
	PhaseStopping   = "stopping"
	PhaseReleasing  = "releasing"
)

// Standing tells in words how an alloc stands. Whoever shows an alloc to people shows this.
type Standing struct {
	// Phase is one of the phases, or the client status of an alloc that has ended.
	Phase string
	// Waits says what it waits for; empty: nothing is known.
	Waits string
	// Task is in trouble, and Trouble says how it ended last; empty: none is.
	Task    string
	Trouble string
	// RestartAt is when Task starts again, by the node's clock; zero: it does not wait for that. Attempt counts its
	// starts, out of Attempts; zero: without an end.
	RestartAt         time.Time
	Attempt, Attempts int
}

// notWritten begins the description of an alloc whose node can write nothing of it down.
const notWritten = "its node cannot write down what is to become of it: "

// NotWritten describes an alloc whose node does not do what the servers ask, because it cannot write that down.
func NotWritten(why error) string { return notWritten + why.Error() }

// Describe tells how an alloc stands. The group is that of its version of the job; nil when that is not known.
func Describe(a *Alloc, g *job.TaskGroup) Standing {
	s := Standing{Phase: phase(a), Waits: waits(a)}
	if d := a.ClientDescription; s.Phase == PhaseReleasing && d != releasing && d != neverRanWaits {
		s.Waits = d
	}
	if s.Phase == PhaseStopping { // it needs nothing any more of what it waited for
		s.Waits = unstopped(a)
		if strings.HasPrefix(a.ClientDescription, notWritten) {
			s.Waits = a.ClientDescription
		}
	}
	for _, name := range taskOrder(a, g) {
		state := a.TaskStates[name]
		e := lastEnd(state)
		restarting := restarts(state)
		if e == nil || !state.Failed && !restarting {
			continue
		}
		s.Task, s.Trouble = name, endWords(name, e, taskOf(g, name))
		if restarting && a.ClientStatus != ClientFailed && !a.ServerTerminal() {
			s.restart(state, g, taskOf(g, name))
		}
		break
	}
	return s
}

func phase(a *Alloc) string {
	running := false
	restarting := false
	dead := len(a.TaskStates) > 0
	for _, t := range a.TaskStates {
		running = running || t.State == TaskRunning
		dead = dead && t.State == TaskDead
		restarting = restarting || restarts(t)
	}
	switch {
	case a.ClientTerminal() || a.ClientStatus == ClientUnknown:
		return a.ClientStatus
	case dead:
		return PhaseReleasing
	case a.ServerTerminal():
		return PhaseStopping
	case restarting:
		return PhaseRestarting
	case a.ClientStatus == ClientRunning || running:
		return PhaseRunning
	}
	return PhasePending
}

// waits is what keeps a task of the alloc from starting.
func waits(a *Alloc) string {
	for _, name := range taskOrder(a, nil) {
		s := a.TaskStates[name]
		if n := len(s.Events); s.State == TaskPending && n > 0 {
			last := s.Events[n-1]
			if last.Waits() || last.Type == EventNotWritten || last.Details[DetailWaits] == "true" {
				return last.DisplayMessage
			}
		}
	}
	return ""
}

// unstopped is why a task that was asked to end runs on; empty: nothing is known.
func unstopped(a *Alloc) string {
	for _, name := range taskOrder(a, nil) {
		s := a.TaskStates[name]
		asked := slices.ContainsFunc(s.Events, func(e *TaskEvent) bool { return e.Type == EventKilling })
		if n := len(s.Events); asked && s.State == TaskRunning && s.Events[n-1].Type == EventDriver {
			return s.Events[n-1].DisplayMessage
		}
	}
	return ""
}

func taskOrder(a *Alloc, g *job.TaskGroup) []string {
	var out []string
	if g != nil {
		for _, t := range g.Tasks {
			out = append(out, t.Name)
		}
	}
	var others []string
	for name := range a.TaskStates { // in any order: sorted below
		if !slices.Contains(out, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return slices.DeleteFunc(append(out, others...), func(name string) bool { return a.TaskStates[name] == nil })
}

func taskOf(g *job.TaskGroup, name string) *job.Task {
	if g == nil {
		return nil
	}
	return g.Task(name)
}

// restarts reports a task that ended and waits for its next start.
func restarts(s *TaskState) bool {
	if s.State != TaskPending {
		return false
	}
	for _, e := range slices.Backward(s.Events) {
		switch e.Type {
		case EventRestarting:
			return true
		case EventStarted, EventReceived:
			return false
		}
	}
	return false
}

// ends are the events that say why a task ended, rather than that it did.
var ends = []string{EventTerminated, EventDriverFailure, EventSetupFailure, EventHookFailed, EventShimDied}

// stops are the events by which a task is ended as one that failed.
var stops = []string{EventDiskExceeded, EventOverdue}

// lastEnd is the event that says best why a task ended last, or nil.
func lastEnd(s *TaskState) *TaskEvent {
	var last *TaskEvent
	for _, e := range s.Events {
		switch {
		case last != nil && slices.Contains(stops, last.Type) && e.Type == EventTerminated: // it was ended for that
		case slices.Contains(ends, e.Type):
			last = e
		case e.FailsTask && last == nil:
			last = e
		}
	}
	return last
}

// endWords says how a task ended.
func endWords(name string, e *TaskEvent, t *job.Task) string {
	who := fmt.Sprintf("task %q", name)
	if e.Type != EventTerminated {
		text := e.DisplayMessage
		if text == "" {
			text = e.Message
		}
		return who + ": " + text
	}
	switch {
	case e.Details["oom_killed"] == "true":
		return who + " ran out of memory" + memoryLimit(t, e)
	case e.Signal != 0:
		return fmt.Sprintf("%s was ended by signal %d", who, e.Signal)
	case e.Details["exit_code"] == "" && e.ExitCode == 0:
		return who + " ended; how is not known"
	}
	return fmt.Sprintf("%s exited with code %d", who, e.ExitCode)
}

// detailMemoryCap is the detail of an event that tells of a kill for the memory limit: the limit in MiB, if the node's
// cap made it smaller than the job asks.
const detailMemoryCap = "memory_cap_mb"

// NoteMemoryCap notes in an event of a kill that the node's cap was the limit in force; 0: it was the job's.
func NoteMemoryCap(e *TaskEvent, capMB int64) {
	if capMB > 0 {
		e.Details[detailMemoryCap] = strconv.FormatInt(capMB, 10)
	}
}

// OOMEvent says that the kernel killed processes of a task for its memory limit, of which it may live on; kills is how
// many since it started, capMB the limit if the node's cap made it, else 0.
func OOMEvent(kills int64, t *job.Task, capMB int64) *TaskEvent {
	text := "A process of the task was killed: the task was at its memory limit"
	if kills > 1 {
		text = fmt.Sprintf("%d processes of the task were killed since it started: it was at its memory limit", kills)
	}
	e := &TaskEvent{Type: EventOOMKill, Details: map[string]string{"oom_kills": fmt.Sprint(kills)}}
	NoteMemoryCap(e, capMB)
	e.DisplayMessage = text + memoryLimit(t, e)
	return e
}

// memoryLimit names the limit by which an event tells of a kill, and who can raise it.
func memoryLimit(t *job.Task, e *TaskEvent) string {
	if mb := e.Details[detailMemoryCap]; mb != "" {
		return fmt.Sprintf(" (its limit was %s MiB: the node caps what memory_max in its resources asks for; "+
			"the node's operator raises max_memory_max in the client block)", mb)
	}
	if t == nil || t.Resources == nil {
		return ""
	}
	limit, what := t.Resources.MemoryMB, "memory"
	switch {
	case t.Resources.MemoryMaxMB < 0:
		return ""
	case t.Resources.MemoryMaxMB > 0:
		limit, what = t.Resources.MemoryMaxMB, "memory_max"
	}
	return fmt.Sprintf(" (its limit is %d MiB; %s in its resources raises it)", limit, what)
}

// restart adds when a task starts again, and which attempt that is.
func (s *Standing) restart(state *TaskState, g *job.TaskGroup, t *job.Task) {
	for _, e := range slices.Backward(state.Events) {
		if e.Type == EventRestarting {
			delay, _ := strconv.ParseInt(e.Details["start_delay"], 10, 64) // without one it starts at once
			s.RestartAt = time.Unix(0, e.Time+delay).UTC()
			break
		}
	}
	var p *job.RestartPolicy
	if t != nil {
		if p = t.RestartPolicy; p == nil {
			p = g.RestartPolicy
		}
	}
	s.Attempt = int(state.Restarts) + 1
	if p != nil && p.Mode != job.RestartDelay && s.Attempt <= p.Attempts+1 {
		s.Attempts = p.Attempts + 1
	}
}
