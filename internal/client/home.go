package client

import (
	"fmt"
	"os"
	"path/filepath"

	"berth/internal/base/fault"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

// settle makes sure that the records of this directory are about this directory. A copy of a living node's would reach
// the plugins and mounts of the original by the paths that it recorded. One that was moved when nothing of it lived is
// at home where it is now.
func (c *Client) settle() error {
	dir, err := filepath.EvalSymlinks(c.cfg.DataDir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "find", c.cfg.DataDir)
	}
	home, err := c.store.Home()
	if err != nil || home == dir {
		return err
	}
	if home != "" && !sameDir(home, dir) {
		alive, err := livesAt(home, dir)
		if err != nil {
			return err
		}
		if alive != "" {
			return fault.WithHint(
				fault.New(fault.Conflict, "use data directory", dir,
					fmt.Sprintf("it is a copy of %s, or was moved from there, and %s", home, alive)),
				"start the agent with data_dir = \""+home+"\"; or, to begin another node, give this agent an empty one")
		}
	}
	return c.store.PutHome(dir)
}

func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// livesAt says what of a node lives beneath the directory that its records name, or beneath the one that it was moved
// to; empty: nothing does.
func livesAt(home, dir string) (string, error) {
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
