package allochooks

import (
	"context"

	"berth/internal/client/cpuset"
	"berth/internal/client/hook"
)

// Cores gives an alloc its whole cores before its first task, and gives them back after its last.
type Cores struct{ Pool *cpuset.Pool }

var (
	_ hook.Prerunner  = (*Cores)(nil)
	_ hook.Postrunner = (*Cores)(nil)
)

// Name implements hook.Hook.
func (*Cores) Name() string { return "cores" }

// Prerun waits until no process of another alloc uses the cores, and keeps all others off them.
func (h *Cores) Prerun(ctx context.Context, a *hook.Alloc) error {
	return h.Pool.Hold(ctx, a.Alloc, func(text string) { a.Emit(waiting(text)) })
}

// Postrun gives the cores back.
func (h *Cores) Postrun(_ context.Context, a *hook.Alloc) error { return h.Pool.Release(a.Alloc.ID) }
