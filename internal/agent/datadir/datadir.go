// Package datadir owns the directory of an agent: that nobody else can change what is in it, that one agent uses it and
// no unfinished one is used, and what of it goes into a backup. A start and a check ask the same judgement. The agent
// and the program import it.
package datadir

import (
	"errors"
	"io/fs"
	"os"

	"berth/internal/base/backup"
	"berth/internal/base/fault"
	"berth/internal/port/kv"
)

// Take makes a data_dir, which may not be there yet, the agent's: it refuses one that Judge refuses, and closes to
// others one that they may only read.
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
	return fault.Wrap(os.Chmod(dir, 0o700), fault.Denied, "close", "data_dir "+dir+" to others")
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
