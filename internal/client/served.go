package client

import (
	"log/slog"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/allocs"
	"berth/internal/client/checks"
	"berth/internal/model/alloc"
)

// served shows the node's allocs to what checks their services.
type served struct {
	*allocs.Allocs
	log *slog.Logger
}

// Served implements checks.Allocs.
func (s served) Served() (out []checks.Served) {
	for _, r := range s.Runners() {
		b := r.Bundle()
		if group := b.Job.Group(b.Alloc.TaskGroup); group == nil || !group.HasServices() {
			continue
		}
		if gone, _ := r.ProcessesGone(); !gone {
			out = append(out, checks.Served{Bundle: b, Network: r.Network(), Tasks: r.TaskStates()})
		}
	}
	return out
}

// Checked implements checks.Allocs.
func (s served) Checked(id ids.Alloc, found alloc.Checks) {
	if r := s.Runner(id); r != nil {
		r.Checked(found)
	}
}

// RestartUnhealthy implements checks.Allocs.
func (s served) RestartUnhealthy(id ids.Alloc, task, reason string) {
	r := s.Runner(id)
	if r == nil {
		return
	}
	if err := r.RestartUnhealthy(task, reason); err != nil {
		s.log.Error("a task whose check fails could not be restarted", logkey.Alloc, id, logkey.Task, task,
			logkey.Error, err)
	}
}
