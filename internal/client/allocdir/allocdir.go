// Package allocdir owns the directories of allocs on a node: how they are laid out, who may enter them, how the agent
// reads files of tasks without being led out of them, and how they are removed without ever crossing a mount point.
// Only package client, its runners and what looks at the node import it.
package allocdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/port/hostfs"
	"berth/internal/port/quota"
	"berth/internal/port/users"
)

// Names within an alloc's directory.
const (
	Shared  = job.SharedDir
	Logs    = "logs"
	Data    = "data"
	Tmp     = job.TmpDir
	Local   = job.LocalDir
	Secrets = job.SecretsDir
)

// secretsSize bounds the file system in memory that holds a task's secrets, in bytes.
const secretsSize = 1 << 20

// Dir is the directory of one alloc: <base>/<id>/{alloc/{data,logs,tmp},<task>/{local,secrets,tmp}}.
type Dir struct {
	path   string
	id     ids.Alloc
	kernel quota.Kernel // nil: this machine's
}

// New names the directory of an alloc beneath base. An id that is not a UUID is hashed.
func New(base string, id ids.Alloc) Dir {
	name := string(id)
	if !ids.IsUUID(name) {
		name = ids.Segment(name)
	}
	return Dir{path: filepath.Join(base, name), id: id}
}

// Path of the alloc's directory.
func (d Dir) Path() string { return d.path }

// SharedDir is shared by the alloc's tasks.
func (d Dir) SharedDir() string { return filepath.Join(d.path, Shared) }

// LogDir holds what the tasks wrote to stdout and stderr.
func (d Dir) LogDir() string { return filepath.Join(d.path, Shared, Logs) }

// TaskDir is a task's own directory. The name was validated with the job; one that is not acceptable is hashed.
func (d Dir) TaskDir(task string) string {
	if ids.ValidTask(task) != nil {
		task = ids.Segment(task)
	}
	return filepath.Join(d.path, task)
}

// Exists reports whether the directory is there.
func (d Dir) Exists() bool {
	_, err := os.Lstat(d.path)
	return err == nil
}

// Build makes the directories that the tasks share; those that exist get their modes again.
func (d Dir) Build() error {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o711); err != nil {
		return fault.Wrap(err, fault.Internal, "make directory", filepath.Dir(d.path))
	}
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{
		{d.path, 0o755},
		// Any task's user may make something there; what lies there already, nobody else may move away.
		{d.SharedDir(), 0o777 | os.ModeSticky},
		{filepath.Join(d.SharedDir(), Data), 0o777},
		{d.LogDir(), 0o755},
		{filepath.Join(d.SharedDir(), Tmp), 0o777 | os.ModeSticky},
	} {
		if err := makeDir(dir.path, dir.mode); err != nil {
			return err
		}
	}
	return nil
}

// BuildTask makes a task's own directories and gives them to the user that the task runs as (empty: the agent's own).
func (d Dir) BuildTask(task, runAs string) error {
	var owner *users.User
	if runAs != "" && os.Geteuid() == 0 {
		var err error
		if owner, err = users.Resolve(runAs); err != nil {
			return err
		}
	}
	root := d.TaskDir(task)
	for _, dir := range []struct {
		name string
		mode os.FileMode
	}{{"", 0o755}, {Local, 0o755}, {Tmp, 0o777 | os.ModeSticky}} {
		if err := makeDir(filepath.Join(root, dir.name), dir.mode); err != nil {
			return err
		}
	}
	if err := d.buildSecrets(root); err != nil {
		return err
	}
	if owner == nil {
		return nil
	}
	for _, name := range []string{Local, Secrets} {
		if err := os.Lchown(filepath.Join(root, name), int(owner.UID), int(owner.GID)); err != nil {
			return fault.Wrap(err, fault.Internal, "give to user "+runAs, filepath.Join(root, name))
		}
	}
	return nil
}

// buildSecrets makes the secrets directory, in memory where the agent may mount.
func (d Dir) buildSecrets(root string) error {
	path := filepath.Join(root, Secrets)
	if err := makeDir(path, 0o700); err != nil {
		return err
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	if _, mounted := table.At(path); mounted || os.Geteuid() != 0 {
		return nil
	}
	opts := fmt.Sprintf("size=%d,mode=0700", secretsSize)
	err = unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, opts)
	return fault.Wrap(err, fault.Internal, "mount secrets at", path)
}

// DropSecrets unmounts the secrets of every task: what they held is gone.
func (d Dir) DropSecrets() error {
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	var failed error
	for _, m := range table.Beneath(d.path) {
		if m.FSType != "tmpfs" || filepath.Base(m.Path) != Secrets || filepath.Dir(filepath.Dir(m.Path)) != d.path {
			continue
		}
		if err := unix.Unmount(m.Path, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			failed = errors.Join(failed, fault.WithHint(fault.Wrap(err, fault.Busy, "unmount secrets at", m.Path),
				"something still uses a file there: fuser -vm "+m.Path))
		}
	}
	return failed
}

// makeDir makes one directory, never through a symbolic link, and sets its mode whatever the umask is.
func makeDir(path string, mode os.FileMode) error {
	if err := os.Mkdir(path, mode.Perm()); err != nil && !errors.Is(err, fs.ErrExist) {
		return classify(err, "make directory", path)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(err, fault.Conflict, "open directory", path)
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }() // a directory opened for reading has nothing to lose
	return classify(f.Chmod(mode), "set mode of", path)
}

func classify(err error, op, subject string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.WithHint(fault.Wrap(err, fault.Exhausted, op, subject), "free some room on its file system")
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(err, fault.NotFound, op, subject)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(err, fault.Denied, op, subject)
	}
	return fault.Wrap(err, fault.Internal, op, subject)
}
