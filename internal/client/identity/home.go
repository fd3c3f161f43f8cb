package identity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"berth/internal/base/fault"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/csimanager/node"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/localstate"
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
	table, err := hostfs.ReadTable()
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
