// Package datadir owns the directory of an agent: that nobody else can change what is in it, that one agent uses it and
// no unfinished one is used, and what of it goes into a backup. A start and a check ask the same judgement. The agent
// and the program import it.
package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"berth/internal/base/backup"
	"berth/internal/base/fault"
	"berth/internal/port/kv"
)

// Take makes a data_dir, which may not be there yet, the agent's: it refuses one that Judge refuses, and closes to
// others one that they may only read, unless that is no data_dir, and has something of theirs.
func Take(dir string, uid int) error {
	if err := Judge(dir, uid); err != nil {
		return err
	}
	st, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // the agent makes it
	case err != nil:
		return fault.Wrap(err, fault.Invalid, "use", "data_dir "+dir)
	case st.Mode().Perm() == 0o700:
		return nil
	}
	switch name, err := foreign(dir); {
	case err != nil:
		return err
	case name != "": // to close it would take that from others
		return unsafeDir(dir, noDataDir(name),
			nameIt+"; a new agent takes an empty one, or one that is closed to others: chmod 700 "+dir)
	}
	return fault.Wrap(os.Chmod(dir, 0o700), fault.Denied, "close", "data_dir "+dir+" to others")
}

// signs are what tells a data_dir: whatever an agent does in one, some of them are there from its first steps on, or
// from those of a restored backup. The lock alone is none: who looks or puts a backup back takes it, too.
var signs = []string{
	"client.identity",
	"client/client.db",
	"server/keyring",
	"server/raft",
	backup.WaitingState,
	"shim",
	"csi",
	"volumes/place.json",
}

// Used refuses, as NotFound, a directory that no agent has begun to use: to read nothing in it would call it whole.
func Used(dir string) error {
	if used(dir) {
		return nil
	}
	name, err := foreign(dir)
	why := "it is empty: no agent has begun to use it"
	switch {
	case err != nil:
		return err
	case name != "":
		why = noDataDir(name)
	}
	return fault.WithHint(fault.New(fault.NotFound, "check", dir, why), nameIt)
}

// nameIt is the way out for who has named another directory.
const nameIt = "name the data_dir of an agent, as it stands in its configuration; of root it is /var/lib/berth"

func used(dir string) bool {
	for _, name := range signs {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// foreign names something in a directory that is no data_dir. lost+found is in every new file system; of the
// directories that an agent uses, any may be an empty file system of its own before the first start.
func foreign(dir string) (name string, err error) {
	if used(dir) {
		return "", nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "read", "data_dir "+dir)
	}
	for _, e := range list {
		switch empty, err := prepared(dir, e); {
		case err != nil:
			return "", fault.Wrap(err, fault.Internal, "read", "data_dir "+dir)
		case !empty && e.Name() != lostFound && e.Name() != "lock":
			return e.Name(), nil
		}
	}
	return "", nil
}

// lostFound is where a check of a file system puts what it finds.
const lostFound = "lost+found"

// prepared tells whether an entry of a directory is one of those that an agent uses, and has nothing in it.
func prepared(dir string, e fs.DirEntry) (bool, error) {
	if !e.IsDir() || !slices.Contains(ours, e.Name()) {
		return false, nil
	}
	list, err := os.ReadDir(filepath.Join(dir, e.Name()))
	rest := slices.DeleteFunc(list, func(e fs.DirEntry) bool { return e.Name() == lostFound })
	return len(rest) == 0, err
}

func noDataDir(name string) string {
	return "it is no data_dir: it has " + name + " in it, and nothing of an agent's"
}

// Lock takes the data_dir for one agent, unless a backup was put back into it in part only.
func Lock(dir string) (*kv.DirLock, error) {
	lock, err := kv.LockDir(dir)
	if err != nil {
		return nil, err
	}
	if err := backup.Unfinished(dir); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return lock, nil
}

// Hold keeps agents from a data_dir that none of them uses until release, and changes nothing in it. refused is why
// Take and Lock of an agent of user uid would refuse it; then nothing of it may be opened.
func Hold(dir string, uid int) (release func() error, refused, err error) {
	none := func() error { return nil }
	if err := Judge(dir, uid); err != nil {
		return none, err, nil
	}
	if release, err = kv.HoldDir(dir); err != nil {
		return nil, nil, err
	}
	return release, backup.Unfinished(dir), nil
}
