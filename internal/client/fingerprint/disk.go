package fingerprint

import (
	"context"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/client/allocdir"
)

// leastChange is the smallest change of the room on a disk that is worth telling the servers, in MiB; of a large one it
// is a fiftieth.
const leastChange = 16

// Disk follows how much of a file system allocs may ask for: what is free, and what their own files take, which what
// they asked for covers. The zero value has looked at nothing.
type Disk struct {
	free, offered int64 // in MiB, at the last look that counted
	looked        bool
}

// Look returns how much allocs may ask for in all, in MiB. A small change of what is free is none.
func (d *Disk) Look(ctx context.Context, path, allocs string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fault.Wrap(err, fault.Internal, "read the capacity of", path)
	}
	free := int64(st.Bavail * uint64(st.Bsize) >> 20)
	if change := max(free-d.free, d.free-free); d.looked && change < max(leastChange, d.free/50) {
		return d.offered, nil
	}
	used, err := allocdir.Occupied(ctx, allocs)
	if err != nil {
		return 0, err
	}
	d.free, d.offered = free, free+used>>20
	d.looked = true
	return d.offered, nil
}
