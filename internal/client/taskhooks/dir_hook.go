package taskhooks

import (
	"context"

	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/port/driver"
)

// Dir makes a task's own directories, and keeps it from writing where its output is kept, if its driver can do that.
type Dir struct{ Dir allocdir.Dir }

var _ hook.Prestarter = (*Dir)(nil)

// Name implements hook.Hook.
func (*Dir) Name() string { return "task_dir" }

// Prestart makes the directories and gives them to the task's user.
func (h *Dir) Prestart(_ context.Context, t *hook.Task) error {
	if err := h.Dir.BuildTask(t.Task.Name, t.Task.User); err != nil {
		return err
	}
	if c := t.DriverInfo.Capabilities; c.Mounts == driver.MountAll && c.FSIsolation == driver.IsolationChroot {
		t.Out.Mounts = append(t.Out.Mounts, driver.Mount{Source: h.Dir.LogDir(), Target: "/" + allocdir.Shared + "/" + allocdir.Logs, ReadOnly: true})
	}
	return nil
}
