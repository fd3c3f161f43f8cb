package files

import (
	"os"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/raft-wal/types"
)

// unmade is the last segment of a log that was opened without room for it: it is listed, holds nothing, and has a file
// as soon as it is made.
type unmade struct {
	made atomic.Pointer[types.SegmentWriter]
}

// errUnmade answers who writes to it before it is made.
var errUnmade = os.NewSyscallError("fallocate", syscall.ENOSPC)

// Append implements types.SegmentWriter.
func (u *unmade) Append(entries []types.LogEntry) error {
	if w := u.made.Load(); w != nil {
		return (*w).Append(entries)
	}
	return errUnmade
}

// Sealed implements types.SegmentWriter.
func (u *unmade) Sealed() (bool, uint64, error) {
	if w := u.made.Load(); w != nil {
		return (*w).Sealed()
	}
	return false, 0, nil
}

// ForceSeal implements types.SegmentWriter.
func (u *unmade) ForceSeal() (uint64, error) {
	if w := u.made.Load(); w != nil {
		return (*w).ForceSeal()
	}
	return 0, errUnmade
}

// LastIndex implements types.SegmentWriter.
func (u *unmade) LastIndex() uint64 {
	if w := u.made.Load(); w != nil {
		return (*w).LastIndex()
	}
	return 0
}

// GetLog implements types.SegmentReader.
func (u *unmade) GetLog(index uint64) (*types.PooledBuffer, error) {
	if w := u.made.Load(); w != nil {
		return (*w).GetLog(index)
	}
	return nil, types.ErrNotFound
}

// Close implements io.Closer.
func (u *unmade) Close() error {
	if w := u.made.Load(); w != nil {
		return (*w).Close()
	}
	return nil
}
