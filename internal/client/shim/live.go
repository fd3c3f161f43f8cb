package shim

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/cgroup"
)

// Living lists the shims with a socket in a directory that live, or of whose allocs processes are left. A socket may be
// there by a copy of the directory: then its shim is dead here, and the processes are those of the original. slice is
// the cgroup of all allocs; empty: DefaultSlice.
func Living(ctx context.Context, dir, slice string) ([]Held, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	tree, err := cgroup.Discover()
	if err != nil {
		return nil, err
	}
	if slice == "" {
		slice = DefaultSlice
	}
	all, err := (&Launcher{cfg: Config{Dir: dir, Slice: slice}, tree: tree}).Held(ctx)
	if err != nil {
		return nil, fault.Note(err, "look for what lives in", dir)
	}
	return slices.DeleteFunc(all, func(h Held) bool { return h.Dead && !h.Populated }), nil
}
