package alloc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/fault"
)

// Bounds of what a node reports of an alloc. Agents keep to them (Bound); they are for nodes that are not Berth's.
const (
	// MaxEvents is how many events a task has; older ones are dropped.
	MaxEvents = 10
	// MaxReportedText bounds each text, in bytes.
	MaxReportedText = 64 << 10
	// maxReported bounds a list: of tasks, of details of an event.
	maxReported = 1000
	// maxSaid bounds each text that an agent sends, in bytes: as much as a person reads, and so little that the reports
	// of many allocs fit into one message, whatever their tasks fail by.
	maxSaid = 2 << 10
)

// statuses are those that there are; of an alloc of which nothing is left a node says that it is lost.
var statuses = []string{ClientPending, ClientRunning, ClientComplete, ClientFailed, ClientUnknown, ClientLost}

// CheckReport refuses, as Invalid, what no agent reports of an alloc.
func (a *Alloc) CheckReport() error {
	bad := func(why string) error { return fault.New(fault.Invalid, "report", "alloc "+string(a.ID), why) }
	switch {
	case !slices.Contains(statuses, a.ClientStatus):
		return bad(fmt.Sprintf("%q is no status; known are %s", cut(a.ClientStatus), strings.Join(statuses, ", ")))
	case len(a.ClientDescription) > MaxReportedText:
		return bad("its description is too long")
	case len(a.TaskStates) > maxReported:
		return bad("it has too many tasks")
	case a.Checks != nil && len(a.Checks.Failing) > MaxReportedText:
		return bad("what its checks have found is too long")
	case a.Network.tooMuch():
		return bad("its network's address is none")
	}
	for name, s := range a.TaskStates {
		if why := s.tooMuch(name); why != "" {
			return bad(fmt.Sprintf("task %q: %s", cut(name), why))
		}
	}
	return nil
}

// tooMuch reports a network that no node has.
func (n *NetworkStatus) tooMuch() bool {
	if n == nil {
		return false
	}
	const (
		longestAddress = 45
		longestLink    = 15
		most           = 64
	)
	words := len(n.Address) > longestAddress || len(n.IPv6) > longestAddress || len(n.Interface) > longestLink
	if n.DNS == nil {
		return words
	}
	for _, list := range [][]string{n.DNS.Servers, n.DNS.Searches, n.DNS.Options} {
		words = words || len(list) > most ||
			slices.ContainsFunc(list, func(w string) bool { return len(w) > MaxReportedText })
	}
	return words
}

func (s *TaskState) tooMuch(name string) string {
	switch {
	case len(name) > MaxReportedText || len(s.State) > MaxReportedText:
		return "its name or state is too long"
	case len(s.Events) > MaxEvents:
		return fmt.Sprintf("it has %d events, at most %d are kept", len(s.Events), MaxEvents)
	}
	for _, e := range s.Events {
		if e.longest() > MaxReportedText || len(e.Details) > maxReported {
			return "an event is too long"
		}
	}
	return ""
}

// longest is how long the longest text of an event is, in bytes.
func (e *TaskEvent) longest() int {
	size := max(len(e.Type), len(e.Message), len(e.DisplayMessage))
	for k, v := range e.Details {
		size = max(size, len(k), len(v))
	}
	return size
}

// Bound brings what an agent is about to report within what servers take, which else refuse it with all that is
// reported beside it: of texts that are too long, as the error that names a job's command can be, the middle is left
// out, and of events the oldest are. Events are others' too, and stay as they are.
func (a *Alloc) Bound() {
	a.ClientDescription = abridged(a.ClientDescription)
	if a.Checks != nil {
		a.Checks = &Checks{Failing: abridged(a.Checks.Failing)}
	}
	for _, s := range a.TaskStates {
		s.Events = slices.Clone(s.Events[max(0, len(s.Events)-MaxEvents):])
		for i, e := range s.Events {
			if e.longest() > maxSaid {
				s.Events[i] = e.abridged()
			}
		}
	}
}

func (e *TaskEvent) abridged() *TaskEvent {
	out := *e
	out.Message, out.DisplayMessage = abridged(e.Message), abridged(e.DisplayMessage)
	out.Details = maps.Clone(e.Details)
	for k, v := range out.Details {
		out.Details[k] = abridged(v)
	}
	return &out
}

// abridged leaves out the middle of a text that is too long: what was tried stands at the beginning of an error, and
// what was in the way at its end.
func abridged(s string) string {
	const left = " […] "
	if len(s) <= maxSaid {
		return s
	}
	half := (maxSaid - len(left)) / 2
	return strings.ToValidUTF8(s[:half], "") + left + strings.ToValidUTF8(s[len(s)-half:], "")
}

// cut is enough of a text for a message.
func cut(s string) string { return s[:min(len(s), 64)] }

// Presses reports whether somebody waits for what is new of an alloc: the servers for its status and those of its
// tasks. Of one that is to stop they wait for the end alone, which comes when everything is released.
func Presses(before, now *Alloc, stopping bool) bool {
	if before == nil {
		before = &Alloc{ClientStatus: ClientPending}
	}
	if now.ClientStatus != before.ClientStatus {
		return !stopping || now.ProcessesGone()
	}
	if stopping {
		return false
	}
	for name, t := range now.TaskStates {
		was := before.TaskStates[name]
		if was == nil {
			was = &TaskState{State: TaskPending}
		}
		if t.State != was.State || t.Failed != was.Failed || t.Restarts != was.Restarts {
			return true
		}
	}
	return false
}

// OnItsWay reports whether an alloc starts or ends and nothing stands in its way: what it did last is no failure, and
// no wait that has lasted.
func (a *Alloc) OnItsWay(stopping bool) bool {
	if a.ProcessesGone() || !stopping && a.ClientStatus != ClientPending {
		return false
	}
	for _, t := range a.TaskStates {
		if len(t.Events) > 0 && t.Events[len(t.Events)-1].Obstacle() {
			return false
		}
	}
	return true
}
