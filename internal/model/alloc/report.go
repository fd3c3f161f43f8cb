package alloc

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
)

// Bounds of what a node reports of an alloc. Agents keep to them by far; they are for nodes that are not Berth's.
const (
	// MaxEvents is how many events a task has; older ones are dropped.
	MaxEvents = 10
	// MaxReportedText bounds each text, in bytes.
	MaxReportedText = 64 << 10
	// maxReported bounds a list: of tasks, of details of an event.
	maxReported = 1000
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
	}
	for name, s := range a.TaskStates {
		if why := s.tooMuch(name); why != "" {
			return bad(fmt.Sprintf("task %q: %s", cut(name), why))
		}
	}
	return nil
}

func (s *TaskState) tooMuch(name string) string {
	switch {
	case len(name) > MaxReportedText || len(s.State) > MaxReportedText:
		return "its name or state is too long"
	case len(s.Events) > MaxEvents:
		return fmt.Sprintf("it has %d events, at most %d are kept", len(s.Events), MaxEvents)
	}
	for _, e := range s.Events {
		size := max(len(e.Type), len(e.Message), len(e.DisplayMessage))
		for k, v := range e.Details {
			size = max(size, len(k), len(v))
		}
		if size > MaxReportedText || len(e.Details) > maxReported {
			return "an event is too long"
		}
	}
	return ""
}

// cut is enough of a text for a message.
func cut(s string) string { return s[:min(len(s), 64)] }
