package kv

import (
	"errors"
	"os"
	"syscall"

	"berth/internal/base/durable"
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
	lacks, err := durable.SetAside(f, size+reserve)
	if lacks == nil && err == nil {
		s.aside.Store(size)
	} // else it is tried again with the next write
	return fault.Wrap(errors.Join(err, f.Close()), fault.Internal, "set space aside for", s.path)
}
