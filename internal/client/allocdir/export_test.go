package allocdir

import "berth/internal/port/quota"

// WithKernel asks another kernel for quotas.
func (d Dir) WithKernel(k quota.Kernel) Dir {
	d.kernel = k
	return d
}
