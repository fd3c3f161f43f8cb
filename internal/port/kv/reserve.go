package kv

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// reserve is how many bytes of disk a store has for itself beyond what its file takes, if there were as many once: what
// is written when a disk is full are mostly ends, which give something back.
const reserve = 4 << 20

// setAside gives the file the blocks for all of its length and the reserve. Where the disk has not as many, or the file
// system sets none aside, the store has those that it has.
func (s *Store) setAside() error {
	size := s.Size()
	if size == s.aside.Load() {
		return nil
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "set space aside for", s.path)
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size+reserve)
	switch {
	case err == nil:
		s.aside.Store(size)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG),
		errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINTR):
		err = nil // it is tried again with the next write
	}
	return fault.Wrap(errors.Join(err, f.Close()), fault.Internal, "set space aside for", s.path)
}
