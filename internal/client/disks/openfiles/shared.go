package openfiles

import (
	"golang.org/x/sys/unix"
)

// What kcmp(2) compares of two processes.
const (
	kcmpVM    = 1
	kcmpFiles = 2
)

// shared are processes or threads that have something of their own each, in the kernel's order of that: most threads
// share one table of descriptors, and it is to be looked at once.
type shared []int

// add takes up a process unless it shares what one of them has. A process that cannot be compared, because it has ended
// or the kernel does not compare, shares nothing.
func (s *shared) add(id int, what uintptr) bool {
	low, high := 0, len(*s)
	for low < high {
		middle := (low + high) / 2
		order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(id), uintptr((*s)[middle]), what, 0, 0, 0)
		switch {
		case errno != 0:
			low = high
		case order == 0:
			return false
		case order == 1:
			high = middle
		default:
			low = middle + 1
		}
	}
	*s = append(*s, 0)
	copy((*s)[low+1:], (*s)[low:])
	(*s)[low] = id
	return true
}
