package identity

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/localstate"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

// found is what lies beneath a data directory, with the identity in the copy beside its store.
type found struct {
	Leftovers
	identity localstate.Identity
}

// look finds what lies beneath a data directory.
func look(ctx context.Context, cfg Config) (*found, error) {
	l := &found{Leftovers: Leftovers{Living: map[ids.Alloc]ids.Node{}}}
	var err error
	if l.identity, l.Damaged, err = localstate.IdentityBeside(StoreDir(cfg.DataDir)); err != nil {
		return nil, err
	}
	l.Copy = l.identity.Node
	held, err := living(ctx, cfg.Shims, cfg.Slice)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		if !h.Dead { // else processes of such an alloc live, but maybe those of another directory
			l.Living[h.Alloc] = nodeOf(h)
		}
	}
	if l.Mounts, err = mounted(cfg.DataDir); err != nil {
		return nil, err
	}
	files, err := evidence.IDFiles(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	l.IDFiles = len(files)
	if l.Allocs, err = entries(filepath.Join(cfg.DataDir, "alloc")); err != nil {
		return nil, err
	}
	for _, dir := range cfg.Volumes {
		n, err := entries(dir)
		if err != nil {
			return nil, err
		}
		l.Volumes += min(n, 1)
	}
	return l, nil
}

// nodeOf is the node of the alloc that a shim was handed with its tasks; empty: it was handed none that can be read.
func nodeOf(h shim.Held) ids.Node {
	var b alloc.Bundle
	if wire.Decode(h.Bundle, &b) != nil || b.Alloc == nil || b.Alloc.ID != h.Alloc {
		return ""
	}
	return b.Alloc.Node
}

// mounted lists what is mounted for volumes and allocs beneath a data directory. The directories themselves may be file
// systems of their own, and a plugin's base is a mount as long as the machine is up.
func mounted(dataDir string) (out []string, err error) {
	table, err := hostfs.ReadTableAnew()
	if err != nil {
		return nil, err
	}
	for _, part := range []string{"csi", "alloc"} {
		root := filepath.Join(dataDir, part)
		for _, m := range table.Beneath(root) {
			if m.Path != root && filepath.Dir(m.Path) != root {
				out = append(out, m.Path)
			}
		}
	}
	return out, nil
}

func entries(dir string) (int, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return len(list), fault.Wrap(err, fault.Internal, "read", dir)
}
