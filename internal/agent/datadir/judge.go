package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"berth/internal/base/fault"
)

// ours are the names that an agent uses in its data_dir. Whatever else is there is none of its business.
var ours = []string{
	"alloc", "audit", "client", "client.identity", "csi", "lock", "networks", "run", "server", "shim", "volumes",
	"volumes.identity",
}

// files are those of them that are no directories.
var files = []string{"client.identity", "lock", "volumes.identity"}

// stores are those of them that Berth alone writes, down to the last file.
var stores = []string{"client", "run", "server", "volumes"}

// Judge refuses a data_dir in which somebody other than user uid, and root, can change what is there: what is written
// there is run as root. The path must be free of links; who could replace a directory above could replace it. It
// changes nothing, and opens nothing but directories.
func Judge(dir string, uid int) error {
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		if err := safe(dir, at, uid, true); err != nil {
			return err
		}
		if at == "/" {
			break
		}
	}
	if err := safe(dir, dir, uid, false); err != nil {
		return err
	}
	for _, name := range ours {
		path := filepath.Join(dir, name)
		if err := safe(dir, path, uid, false); err != nil {
			return err
		}
		if err := ofItsKind(dir, path, slices.Contains(files, name)); err != nil {
			return err
		}
	}
	for _, name := range stores {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, _ fs.DirEntry, err error) error {
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // what runs on may remove what it made
				return fault.Wrap(err, fault.Invalid, "use", "data_dir "+dir)
			}
			return safe(dir, path, uid, false)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// safe refuses a path that others can change. above: it is a directory over the data_dir, which may belong to root, and
// where others may make things of their own if they cannot replace those of others.
func safe(dir, path string, uid int, above bool) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fault.Wrap(err, fault.Invalid, "use", "data_dir "+dir)
	case st.Mode()&fs.ModeSymlink != 0:
		return unsafeDir(dir, path+" is a symbolic link",
			"put the directory itself there; to have it on another disk, mount that there")
	case !above && !st.Mode().IsRegular() && !st.IsDir(): // to open a pipe would wait for whoever writes to it
		return unsafeDir(dir, path+" is neither a file nor a directory",
			"look who put it there, and restore the file from a backup")
	}
	owner := int(st.Sys().(*syscall.Stat_t).Uid)
	if owner != uid && (!above || owner != 0) {
		return unsafeDir(dir, fmt.Sprintf("%s belongs to user %d, and the agent runs as user %d", path, owner, uid),
			"choose a directory of the agent's own; if it was its own before, look who changed it, and what is in it")
	}
	if st.Mode().Perm()&0o022 != 0 && (!above || st.Mode()&fs.ModeSticky == 0) {
		return unsafeDir(dir, fmt.Sprintf("%s can be written by others (mode %#o)", path, st.Mode().Perm()),
			"take that right away from them: chmod go-w "+path+"; look what they may have put there before")
	}
	return nil
}

// ofItsKind refuses a directory in the place of a file, and a file in that of a directory.
func ofItsKind(dir, path string, file bool) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fault.Wrap(err, fault.Invalid, "use", "data_dir "+dir)
	case st.IsDir() && file:
		return unsafeDir(dir, path+" is a directory, where a file belongs", wrongKind)
	case !st.IsDir() && !file:
		return unsafeDir(dir, path+" is a file, where a directory belongs", wrongKind)
	}
	return nil
}

const wrongKind = "look who put it there, and move it away"

func unsafeDir(dir, why, way string) error {
	return fault.WithHint(fault.New(fault.Denied, "use", "data_dir "+dir, why), way)
}
