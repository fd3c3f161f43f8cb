package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

// private is the library's file system, with segments that their owner alone may use: the library makes them for all to
// read.
type private struct {
	*walfs.FS
	made func(base uint64) // hears which entry is the first of a segment that was made; nil: nobody does
}

// Create makes a segment.
func (p private) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := p.FS.Create(dir, name, size)
	if IsFull(err) { // what the library has left of it stands in the way of the next try
		return nil, errors.Join(err, removed(filepath.Join(dir, name)))
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	if base, _, ok := named(name); ok && p.made != nil {
		p.made(base)
	}
	return f, nil
}

// removed removes a file that may be there.
func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// named reads the name of a segment.
func named(name string) (base, id uint64, ok bool) {
	_, err := fmt.Sscanf(filepath.Base(name), "%020d-%016x.wal", &base, &id)
	return base, id, err == nil
}

// closeToOthers takes the rights of others from what lies in a directory: the library gives them, as did versions of
// Berth before this one.
func closeToOthers(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		st, err := e.Info()
		if err != nil || st.Mode().Perm()&0o077 == 0 {
			return err
		}
		return os.Chmod(path, st.Mode().Perm()&^0o077)
	})
}
