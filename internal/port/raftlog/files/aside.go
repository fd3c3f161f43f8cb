package files

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/logkey"
)

// AsideFile, in the directory of a log, sets capacity aside for term and vote: a server of several that could not write
// them on a full disk would neither follow a new leader nor know that there is one.
const AsideFile = "aside"

const asideSize = 1 << 20

// Aside is that file.
type Aside struct {
	set atomic.Bool // or tried: the next try comes once it was given
}

// Set makes the file, if it was given. Without it a stable write waits on a full disk.
func (a *Aside) Set(dir string, log *slog.Logger) {
	if a.set.Swap(true) {
		return
	}
	path := filepath.Join(dir, AsideFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		lacks, failed := durable.SetAside(f, asideSize)
		err = errors.Join(lacks, failed, f.Close())
	}
	if err != nil {
		log.Debug("nothing is set aside for term and vote", logkey.Path, path, logkey.Error, err)
	}
}

// Give gives it up; false: there was none.
func (a *Aside) Give(dir string) bool {
	a.set.Store(false)
	return os.Remove(filepath.Join(dir, AsideFile)) == nil
}

// Space is what a log knows of its disk.
type Space struct {
	Reserve uint64      // bytes that must stay free for work that only releases
	Segment uint64      // the size of one, in bytes
	Full    atomic.Bool // the last new work was refused for want of capacity
	Lacking atomic.Bool // the last entries were
	Aside   Aside       // what term and vote have for themselves
}

// Enough refuses when less than n bytes are free on the file system of a log, with a way out.
func Enough(dir string, n uint64, hint string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Classify(err, "look for room at", dir)
	}
	if free := st.Bavail * uint64(st.Bsize); free < n {
		return &fault.Error{
			Kind:    fault.Exhausted,
			Op:      "write log",
			Subject: dir,
			Err: fmt.Errorf("%d MiB are free on its file system, %d MiB are needed: %w", free>>20, n>>20,
				syscall.ENOSPC),
			Hint: hint,
		}
	}
	return nil
}
