package allochooks

import (
	"context"

	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
)

// Dir makes the directories that an alloc's tasks share, and forgets the tasks' secrets when the last task has ended.
// The directories themselves stay for people to read until the servers forget the alloc.
type Dir struct {
	Dir allocdir.Dir
	// Held is how a new alloc is held to the size that its group asks for.
	Held allocdir.Held
}

var (
	_ hook.Prerunner  = (*Dir)(nil)
	_ hook.Postrunner = (*Dir)(nil)
)

// Name implements hook.Hook.
func (*Dir) Name() string { return "alloc_dir" }

// Prerun makes the directories; those that are there are left as they are. An alloc keeps its file system or its
// quota, also when the agent makes none any more.
func (h *Dir) Prerun(ctx context.Context, a *hook.Alloc) error {
	if a.Group != nil && a.Group.EphemeralDisk != nil {
		if err := h.Dir.Hold(ctx, int64(a.Group.EphemeralDisk.SizeMB)<<20, h.Held); err != nil {
			return err
		}
	}
	return h.Dir.Build()
}

// Postrun unmounts the secrets.
func (h *Dir) Postrun(context.Context, *hook.Alloc) error { return h.Dir.DropSecrets() }
