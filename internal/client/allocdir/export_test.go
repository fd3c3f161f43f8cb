package allocdir

import (
	"context"

	"berth/internal/port/quota"
)

// WithKernel asks another kernel for quotas.
func (d Dir) WithKernel(k quota.Kernel) Dir {
	d.kernel = k
	return d
}

// MeasureOpened measures a directory that is open, as one is on the way through an alloc's, and closes it.
func MeasureOpened(ctx context.Context, fd int) error {
	return (&measure{seen: map[uint64]bool{}, places: map[string]int64{}}).directory(ctx, fd, ".", 0)
}
