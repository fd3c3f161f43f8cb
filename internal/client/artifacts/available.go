package artifacts

import (
	"context"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/retry"
	"berth/internal/base/sizes"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/model/job"
	"berth/internal/port/fetch"
)

// available is what an alloc has of the disk, of which all that is fetched into it takes its part, while it comes, too:
// files, what they are unpacked from, and what git keeps until its files are laid out.
type available struct {
	dir   string // the alloc's
	limit int64  // bytes; 0: tasks are held to none
}

func (h *Hook) available(t *hook.Task) available {
	return available{dir: t.Dir, limit: h.disk(t.Group)}
}

// disk is what a group asks for in bytes; 0: nobody is held to it.
func (h *Hook) disk(g *job.TaskGroup) int64 {
	if h.UnlimitedDisks || g == nil || g.EphemeralDisk == nil || g.EphemeralDisk.SizeMB <= 0 {
		return 0
	}
	return int64(g.EphemeralDisk.SizeMB) << 20
}

// look measures the alloc, and refuses what is too much. It says how much is left, and how long it was to look.
func (r available) look(ctx context.Context) (left int64, entries int, err error) {
	use, err := allocdir.Taken(ctx, r.dir)
	if err != nil {
		return 0, 0, err
	}
	if use.TooDeep {
		return 0, 0, fault.New(fault.Invalid, "", "", fmt.Sprintf("directories lie in each other deeper than %d, "+
			"where what they take of the disk is not measured", allocdir.Deepest))
	}
	if use.Bytes > r.limit {
		used, allowed := sizes.Differing(use.Bytes, r.limit)
		return 0, 0, fault.WithHint(fault.New(fault.Invalid, "", "", fmt.Sprintf("with what is fetched the allocation "+
			"takes %s of the node's disk, ephemeral_disk allows %s", used, allowed)),
			"ask for more in the group's ephemeral_disk; an archive lies there beside what it is unpacked to")
	}
	return r.limit - use.Bytes, use.Entries, nil
}

// bounds are those of a fetch that begins now: it has no more than what is left.
func (r available) bounds(ctx context.Context, b fetch.Bounds) (fetch.Bounds, error) {
	if r.limit == 0 {
		return b, nil
	}
	left, _, err := r.look(ctx)
	if err != nil {
		return b, err
	}
	for _, bound := range []*int64{&b.Received, &b.Unpacked} {
		if *bound == 0 || *bound > left {
			*bound = max(left, 1) // 0 would be none
		}
	}
	return b, nil
}

// Looking is repeated soon: it stops as soon as nothing is fetched any more. It takes no more than a hundredth of a
// processor, as do the measurements of the disk of those that run.
const (
	lookAgain = time.Second
	perEntry  = time.Millisecond
)

// watch measures the alloc until ctx ends. It returns why what is fetched is too much.
func (r available) watch(ctx context.Context) error {
	for {
		_, entries, err := r.look(ctx)
		if err != nil || !retry.Sleep(ctx, lookAgain+time.Duration(entries)*perEntry) {
			return err
		}
	}
}
