// Package durable owns how directories and small files are made that survive a power failure. A file's content survives
// its fsync, its name that of the directory; so whoever makes what others are to rely on syncs what it is in, too.
// Everybody may import it.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MakeDir makes a directory with its parents, and has them survive. One that is there already is synced in its parent
// all the same: who made it may have been killed before.
func MakeDir(path string, mode os.FileMode) error {
	parent := filepath.Dir(path)
	err := os.Mkdir(path, mode)
	if errors.Is(err, fs.ErrNotExist) && parent != path {
		if err = MakeDir(parent, mode); err == nil {
			err = os.Mkdir(path, mode)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		if st, serr := os.Stat(path); serr == nil && st.IsDir() {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return SyncDir(parent)
}

// SyncDir has what was made, renamed or removed in a directory survive.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// WriteFile writes a small file: after a power failure the old one is there, whole, or the new one; and once it has
// returned, the new one.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SetAside gives a file the blocks for its first n bytes, however long it is, so that as much is written to it when the
// disk is full. lacks says why it has only those that it had: the disk has no more, or the file system sets none aside.
// Then it may be tried again.
func SetAside(f *os.File, n int64) (lacks, err error) {
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, n)
	for _, l := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.EOPNOTSUPP, unix.EINTR} {
		if errors.Is(err, l) {
			return err, nil
		}
	}
	return nil, err
}
