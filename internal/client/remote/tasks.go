package remote

import (
	"context"

	"berth/internal/model/alloc"
	"berth/internal/port/driver"
)

// TaskUse is what a task uses that runs.
type TaskUse struct {
	Alloc *alloc.Alloc
	Task  string
	driver.Stats
}

// TasksUse tells what each running task uses now, by allocation and task. One that has ended meanwhile, or does not
// answer before ctx ends, is left out.
func (m *Methods) TasksUse(ctx context.Context) []TaskUse {
	var out []TaskUse
	for _, r := range m.cfg.Allocs.Runners() {
		a := r.Bundle().Alloc
		for _, name := range r.Tasks() {
			t, err := r.Task(name)
			if err != nil {
				continue
			}
			live, err := t.Live()
			if err != nil {
				continue
			}
			if stats, err := live.Stats(ctx); err == nil {
				out = append(out, TaskUse{a, name, stats})
			}
		}
	}
	return out
}
