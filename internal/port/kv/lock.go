package kv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/flock"
)

// DirLock makes sure that one process alone uses a data directory. It ends with the process, however that ends.
type DirLock struct{ file *os.File }

// lockFile lies in the directory and tells who holds it.
const lockFile = "lock"

// LockDir makes dir if it is missing and takes it. When another process holds it the answer is fault.Busy and names the
// directory and that process.
func LockDir(dir string) (*DirLock, error) {
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return nil, classify(err, "make directory", dir)
	}
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, classify(err, "lock directory", dir)
	}
	if err := flock.Try(f, syscall.LOCK_EX); err != nil {
		defer func() { _ = f.Close() }() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, heldBy(path, dir)
		}
		return nil, classify(err, "lock directory", dir)
	}
	if err := flock.Name(f); err != nil {
		_ = f.Close() // the error of the write is the one that matters
		return nil, classify(err, "write lock", path)
	}
	return &DirLock{file: f}, nil
}

func heldBy(path, dir string) error {
	who := "another process"
	if data, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(data))) > 0 {
		who = "process " + strings.TrimSpace(string(data))
	}
	return &fault.Error{
		Kind:    fault.Busy,
		Op:      "use data directory",
		Subject: dir,
		Err:     errors.New(who + " uses it"),
		Hint:    "stop that agent, or give this one another data_dir",
	}
}

// Unlock gives the directory back.
func (l *DirLock) Unlock() error { return flock.Release(l.file) }

// HoldDir makes sure that no process uses a data directory until release, and changes nothing in it. One that was never
// used is nobody's.
func HoldDir(dir string) (release func() error, err error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, classify(err, "lock directory", dir)
	}
	if err := flock.Try(f, syscall.LOCK_SH); err != nil {
		defer func() { _ = f.Close() }() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, heldBy(path, dir)
		}
		return nil, classify(err, "lock directory", dir)
	}
	return func() error { return flock.Release(f) }, nil
}
