package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"berth/internal/base/fault"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

// Trial is a start of an agent in a data_dir. Until something runs there, the start may be refused.
type Trial struct {
	dir    string
	lock   *kv.DirLock
	made   bool     // there was no such directory before
	locked bool     // there was a file of the lock before
	gone   []string // what an agent makes in it, and was not there; none where an agent has used it before
	empty  []string // of the same the directories that were there, with nothing in them
}

// Try takes a data_dir for one agent, as Take and Lock do.
func Try(dir string, uid int) (*Trial, error) {
	t := &Trial{dir: dir, made: missing(dir), locked: !missing(filepath.Join(dir, lockName))}
	if err := Take(dir, uid); err != nil {
		return nil, err
	}
	var err error
	if t.lock, err = Lock(dir); err != nil {
		return nil, err
	}
	if used(dir) {
		return t, nil
	}
	for _, name := range ours {
		path := filepath.Join(dir, name)
		list, err := os.ReadDir(path)
		switch {
		case name == lockName:
		case missing(path):
			t.gone = append(t.gone, path)
		case err == nil && !slices.ContainsFunc(list, notOfFileSystem):
			t.empty = append(t.empty, path)
		}
	}
	return t, nil
}

// lockName is the file by which an agent holds its data_dir.
const lockName = "lock"

func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// End gives the data_dir back. refused: the start failed before anything ran; then it leaves nothing in a data_dir that
// no agent has used, and no data_dir where there was none.
func (t *Trial) End(refused bool) error {
	if !refused || len(t.gone) == 0 {
		return t.lock.Unlock()
	}
	var errs []error
	for _, path := range t.gone {
		errs = append(errs, Remove(path))
	}
	for _, path := range t.empty {
		list, err := os.ReadDir(path)
		errs = append(errs, err)
		for _, e := range slices.DeleteFunc(list, func(e fs.DirEntry) bool { return !notOfFileSystem(e) }) {
			errs = append(errs, Remove(filepath.Join(path, e.Name())))
		}
	}
	if !t.locked {
		errs = append(errs, os.Remove(filepath.Join(t.dir, lockName)))
	}
	errs = append(errs, t.lock.Unlock()) // the last: until then nobody else begins here
	if t.made {
		if err := os.Remove(t.dir); !errors.Is(err, syscall.ENOTEMPTY) { // another agent begins here already
			errs = append(errs, err)
		}
	}
	return fault.Wrap(errors.Join(errs...), fault.Internal, "take back the start in", "data_dir "+t.dir)
}

// notOfFileSystem tells what is in a directory and not of its file system.
func notOfFileSystem(e fs.DirEntry) bool { return e.Name() != lostFound }

// Remove removes what this run made. It stops at mounts: what is mounted below belongs to somebody.
func Remove(path string) error {
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	if left := table.Beneath(path); len(left) > 0 {
		return fault.New(fault.Busy, "remove", path, left[0].Path+" is still mounted")
	}
	if path == "/" || filepath.Dir(path) == "/" {
		return fault.New(fault.Invalid, "remove", path, "it is no temporary directory")
	}
	return os.RemoveAll(path)
}
