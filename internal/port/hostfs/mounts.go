// Package hostfs owns the node's own view of its file systems: the mount table as the kernel tells it, and removal that
// never crosses a mount. It reads /proc/self/mountinfo and never stats a foreign mount, because that may hang for ever.
package hostfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"berth/internal/base/fault"
)

// Mount is one line of the mount table.
type Mount struct {
	ID       int
	Path     string // mount point
	Device   string // major:minor
	Root     string // within the file system
	Source   string
	FSType   string
	ReadOnly bool // of the mount or of its file system
	Shared   bool
}

// Table is one reading of the mount table, in mount order.
type Table struct{ mounts []Mount }

// TableOf is a table of these mounts, in mount order.
func TableOf(mounts ...Mount) *Table { return &Table{mounts: mounts} }

// ReadTable reads the table of the calling process's mount namespace.
func ReadTable() (*Table, error) {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "the mount table")
	}
	t := &Table{mounts: make([]Mount, 0, len(infos))}
	for _, i := range infos {
		t.mounts = append(t.mounts, Mount{
			ID:       i.ID,
			Path:     i.Mountpoint,
			Device:   fmt.Sprintf("%d:%d", i.Major, i.Minor),
			Root:     i.Root,
			Source:   i.Source,
			FSType:   i.FSType,
			ReadOnly: hasOption(i.Options, "ro") || hasOption(i.VFSOptions, "ro"),
			Shared:   strings.Contains(i.Optional, "shared:"),
		})
	}
	return t, nil
}

func hasOption(list, want string) bool { return slices.Contains(strings.Split(list, ","), want) }

// At returns the topmost mount whose mount point is exactly path.
func (t *Table) At(path string) (Mount, bool) {
	path = filepath.Clean(path)
	for i := len(t.mounts) - 1; i >= 0; i-- {
		if t.mounts[i].Path == path {
			return t.mounts[i], true
		}
	}
	return Mount{}, false
}

// Beneath returns the mounts at or below path, deepest last mounted first: the order in which they can be undone.
func (t *Table) Beneath(path string) []Mount {
	path = filepath.Clean(path)
	var out []Mount
	for i := len(t.mounts) - 1; i >= 0; i-- {
		p := t.mounts[i].Path
		if p == path || strings.HasPrefix(p, path+"/") || path == "/" {
			out = append(out, t.mounts[i])
		}
	}
	return out
}

// RemoveEmpty removes an empty directory or a plain file that is not a mount point and has none below it. What is not
// there is no error; a directory with content is kept and named in a fault.Conflict.
func RemoveEmpty(path string) error {
	t, err := ReadTable()
	if err != nil {
		return err
	}
	if m := t.Beneath(path); len(m) > 0 {
		return fault.New(fault.Busy, "remove", path, "something is still mounted at "+m[0].Path)
	}
	st, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return fault.Wrap(err, fault.Internal, "remove", path)
	case st.IsDir():
		if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
			return fault.New(fault.Conflict, "remove", path,
				fmt.Sprintf("the directory is not empty: it holds %q", entries[0].Name()))
		}
	}
	return fault.Wrap(os.Remove(path), fault.Internal, "remove", path)
}
