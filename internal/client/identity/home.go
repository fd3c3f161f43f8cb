package identity

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/csimanager/node"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/localstate"
	"berth/internal/client/shim"
	"berth/internal/client/shim/serving"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

// settle makes sure that the records of this directory are about this directory. A copy of a living node's would reach
// the plugins and mounts of the original by the paths that it recorded. One that was moved when nothing of it lived is
// at home where it is now: the paths in its records follow it.
func settle(ctx context.Context, store *localstate.Store, cfg Config) error {
	dir, err := filepath.EvalSymlinks(cfg.DataDir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "find", cfg.DataDir)
	}
	if err := unreplaced(dir, cfg); err != nil {
		return err
	}
	home, err := homeOf(store, dir)
	if err != nil {
		return err
	}
	if home == dir || home == "" || sameDir(home, dir) {
		return store.PutHome(dir, nil)
	}
	alive, err := livesAt(ctx, home, dir, cfg)
	if err != nil {
		return err
	}
	if alive != "" {
		return fault.WithHint(
			fault.New(fault.Conflict, "use data directory", dir,
				fmt.Sprintf("it is a copy of %s, or was moved from there, and %s", home, alive)),
			"start the agent with data_dir = \""+home+"\"; or, to begin another node, give this agent an empty one")
	}
	// Files first: the home is written with the records, so that a crash repeats both.
	if err := evidence.Reroot(localstate.Codec, dir, home); err != nil {
		return err
	}
	return store.PutHome(dir, func(tx *kv.Tx) error {
		if err := node.Reroot(tx, home, dir); err != nil {
			return err
		}
		return dynamicplugins.Reroot(tx, home, dir)
	})
}

// unreplaced refuses a directory that lies where tasks that run were started from, while theirs was moved away. It is a
// copy, or was restored, and knows nothing of what has happened since: their volumes are mounted beneath the other one,
// so that they would be taken for tasks that have lost them, and be ended.
func unreplaced(dir string, cfg Config) error {
	if cfg.Shims == "" {
		return nil
	}
	shims, err := serving.From(cfg.Shims, cmp.Or(cfg.Slice, shim.DefaultSlice))
	if err != nil || len(shims) == 0 {
		return err
	}
	table, err := hostfs.ReadTableAnew()
	if err != nil {
		return err
	}
	var mounts []string
	for _, m := range table.Beneath("/") {
		mounts = append(mounts, m.Path)
	}
	for _, s := range shims {
		if there := elsewhere(s.Alloc, dir, slices.Concat(s.Open, mounts)); there != "" {
			return fault.WithHint(
				fault.New(fault.Conflict, "use data directory", dir,
					fmt.Sprintf("it was put in the place of another one, which is %s now, and of which "+
						"allocation %s runs", there, s.Alloc)),
				fmt.Sprintf("move this one away and that one back, mv %s %s, and start the agent; to go on with this "+
					"one instead, stop what runs first, by the agent of that one, or restart the machine", there, dir))
		}
	}
	return nil
}

// elsewhere is the data directory beneath which the paths of an alloc lie; empty: some lie beneath dir, or there are
// none.
func elsewhere(id ids.Alloc, dir string, paths []string) (there string) {
	for _, path := range paths {
		above, _, found := strings.Cut(path, "/alloc/"+string(id)+"/")
		switch {
		case !found:
		case above == dir || sameDir(above, dir):
			return ""
		default:
			there = above
		}
	}
	return there
}

// homeOf is the directory that the records in a data directory are about; empty: there are none. A store that was lost
// is replaced by what the files beside mounts say of where they are.
func homeOf(store *localstate.Store, dir string) (string, error) {
	home, err := store.Home()
	if err != nil || home != "" {
		return home, err
	}
	return evidence.Home(localstate.Codec, dir)
}

func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// livesAt says what of a node lives beneath the directory that its records name, or beneath the one that it was moved
// to; empty: nothing does.
func livesAt(ctx context.Context, home, dir string, cfg Config) (string, error) {
	table, err := hostfs.ReadTableAnew()
	if err != nil {
		return "", err
	}
	for _, d := range []string{home, dir} {
		for _, m := range table.Beneath(d) {
			if m.Path != d { // else the directory itself is a file system
				return "something of it is mounted at " + m.Path, nil
			}
		}
	}
	for _, shims := range shimDirs(cfg, home, dir) {
		held, err := living(ctx, shims, cfg.Slice)
		if err != nil {
			return "", err
		}
		if len(held) > 0 {
			return fmt.Sprintf("allocation %s of it runs", held[0].Alloc), nil
		}
	}
	if _, err := os.Stat(home); err != nil {
		return "", nil // it was moved
	}
	lock, err := kv.LockDir(home)
	switch {
	case fault.Has(err, fault.Busy):
		return "its agent runs", nil
	case err != nil:
		return "", err
	}
	return "", lock.Unlock()
}

// shimDirs are where the shims of a node may be found that has moved.
func shimDirs(cfg Config, home, dir string) []string {
	if cfg.Shims == "" {
		return nil
	}
	out := []string{cfg.Shims}
	if was := hostfs.Reroot(cfg.Shims, dir, home); was != cfg.Shims {
		out = append(out, was)
	}
	return out
}
