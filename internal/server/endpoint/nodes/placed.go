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
	a, err := placed(s, w, on, id)
	if err != nil {
		return nil, nil, fault.Note(err, "ask for", fmt.Sprintf("task %q of allocation %q", task, id))
	}
	t := s.JobOf(w, a).TaskOf(a.TaskGroup, task)
	if t == nil {
		return nil, nil, fault.New(fault.Invalid, "ask for", fmt.Sprintf("task %q of allocation %q", task, id),
			"the job has no such task")
	}
	return a, t, nil
}

// PlacedGroup is the group for which a node asks for something, by the same rules.
func PlacedGroup(s *state.Snap, w *state.Watch, on ids.Node, id ids.Alloc) (*alloc.Alloc, *job.TaskGroup, error) {
	a, err := placed(s, w, on, id)
	if err != nil {
		return nil, nil, fault.Note(err, "ask for", fmt.Sprintf("allocation %q", id))
	}
	g := s.JobOf(w, a).Group(a.TaskGroup)
	if g == nil {
		return nil, nil, fault.New(fault.Invalid, "ask for", fmt.Sprintf("allocation %q", id),
			"the job has no such group")
	}
	return a, g, nil
}

func placed(s *state.Snap, w *state.Watch, on ids.Node, id ids.Alloc) (*alloc.Alloc, error) {
	a := s.Alloc(w, id)
	switch {
	case a == nil || a.Node != on: // which of both is nothing to a node that does not run it
		return nil, fault.New(fault.Denied, "", "", "the allocation is not placed on this node")
	case a.ClientTerminal():
		return nil, fault.New(fault.Denied, "", "", "the allocation has ended")
	}
	return a, nil
}
