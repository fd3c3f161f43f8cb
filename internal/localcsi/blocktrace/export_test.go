package blocktrace

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

func discardRange(f *os.File, at [2]uint64) error {
	const blkDiscard = 0x1277
	_, _, no := unix.Syscall(unix.SYS_IOCTL, f.Fd(), blkDiscard, uintptr(unsafe.Pointer(&at)))
	if no != 0 {
		return no
	}
	return nil
}

// waiting is how much of the ring is full.
func (r *ring) waiting() uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&r.page[headOffset])).Load() -
		(*atomic.Uint64)(unsafe.Pointer(&r.page[tailOffset])).Load()
}
