package nodes

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// Placed is the task as which a node asks for something: one of an allocation that is placed on it, and has not ended.
// The watch hears when that changes.
func Placed(
	s *state.Snap, w *state.Watch, on ids.Node, id ids.Alloc, task string,
) (*alloc.Alloc, *job.Task, error) {
	refuse := func(kind fault.Kind, why string) (*alloc.Alloc, *job.Task, error) {
		return nil, nil, fault.New(kind, "ask for", fmt.Sprintf("task %q of allocation %q", task, id), why)
	}
	a := s.Alloc(w, id)
	switch {
	case a == nil || a.Node != on: // which of both is nothing to a node that does not run it
		return refuse(fault.Denied, "the allocation is not placed on this node")
	case a.ClientTerminal():
		return refuse(fault.Denied, "the allocation has ended")
	}
	t := s.JobOf(w, a).TaskOf(a.TaskGroup, task)
	if t == nil {
		return refuse(fault.Invalid, "the job has no such task")
	}
	return a, t, nil
}
