package allocdir

import (
	"context"
	"os"
	"path/filepath"

	"berth/internal/port/quota"
)

// Held is how the disk that an alloc takes is held to what its group asks for, beside being measured.
type Held int

// Ways to hold it.
const (
	Measured Held = iota // by measuring alone
	Image                // by a file system of its own
	Quota                // by a project quota of the node's file system
)

// CanQuota says what the file system of a directory, which may be missing yet, lacks to hold allocs in it by quotas.
func CanQuota(base string) error { return quota.Projects{Base: base}.Check() }

// Hold gives the directory of a new alloc a file system or a quota of so many bytes, as how says, and brings that of an
// older one into place. A directory that has something in it stays as it is.
func (d Dir) Hold(ctx context.Context, size int64, how Held) error {
	if err := d.Enclose(ctx, size, how == Image); err != nil || how != Quota {
		return err
	}
	if enclosed, err := d.enclosed(); err != nil || enclosed {
		return err
	}
	name := filepath.Base(d.path)
	if _, bounded, err := d.projects().Used(name); err != nil || bounded {
		return err
	}
	if entries, err := os.ReadDir(d.path); err == nil && len(entries) > 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(d.path), 0o711); err != nil {
		return classify(err, "make directory", filepath.Dir(d.path))
	}
	if err := makeDir(d.path, 0o755); err != nil {
		return err
	}
	return d.projects().Bound(name, size)
}

func (d Dir) projects() quota.Projects {
	return quota.Projects{Base: filepath.Dir(d.path), Kernel: d.kernel}
}
