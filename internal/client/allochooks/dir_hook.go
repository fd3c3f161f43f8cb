package allochooks

import (
	"context"

	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
)

// Dir makes the directories that an alloc's tasks share, and forgets the tasks' secrets when the last task has ended.
// The directories themselves stay for people to read until the servers forget the alloc.
type Dir struct{ Dir allocdir.Dir }

var (
	_ hook.Prerunner  = (*Dir)(nil)
	_ hook.Postrunner = (*Dir)(nil)
)

// Name implements hook.Hook.
func (*Dir) Name() string { return "alloc_dir" }

// Prerun makes the directories; those that are there are left as they are.
func (h *Dir) Prerun(context.Context, *hook.Alloc) error { return h.Dir.Build() }

// Postrun unmounts the secrets.
func (h *Dir) Postrun(context.Context, *hook.Alloc) error { return h.Dir.DropSecrets() }
