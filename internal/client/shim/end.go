package shim

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// End ends an alloc's shim and all it holds, and returns when its cgroup is empty: the last word before an alloc's
// storage is let go. It is no error when nothing is left.
func (l *Launcher) End(ctx context.Context, id ids.Alloc) error {
	return fault.Note(l.end(ctx, string(id)), "end", "the processes of alloc "+ids.Short(id))
}
