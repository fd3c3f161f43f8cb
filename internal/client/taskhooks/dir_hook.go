package taskhooks

import (
	"context"

	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
)

// Dir makes a task's own directories and gives them to the task's user.
type Dir struct{ Dir allocdir.Dir }

var _ hook.Prestarter = (*Dir)(nil)

// Name implements hook.Hook.
func (*Dir) Name() string { return "task_dir" }

// Prestart makes what is not there and sets owner and mode of what is.
func (h *Dir) Prestart(_ context.Context, t *hook.Task) error {
	return h.Dir.BuildTask(t.Task.Name, t.User)
}
