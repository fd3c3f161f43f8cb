package allocs

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/base/reconcile"
)

// Leave decides about an alloc that the servers left out, as the loop does; it tells whether that is put off.
func (a *Allocs) Leave(ctx context.Context, id ids.Alloc) (putOff bool, err error) {
	r, err := a.leave(ctx, id)
	return r != reconcile.Done(), err
}
