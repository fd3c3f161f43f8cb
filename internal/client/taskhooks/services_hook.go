package taskhooks

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/client/hook"
)

// Services has a task's services taken out of where others find them before it ends.
type Services struct {
	// Withdraw waits until they are, for a while.
	Withdraw func(ctx context.Context, id ids.Alloc, task string)
}

// Name implements hook.Hook.
func (*Services) Name() string { return "services" }

// Leave implements hook.Leaver.
func (s *Services) Leave(ctx context.Context, t *hook.Task) { s.Withdraw(ctx, t.Alloc.ID, t.Task.Name) }
