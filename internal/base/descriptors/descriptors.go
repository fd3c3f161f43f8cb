// Package descriptors owns the rule that a program hands its children the files it names and no others. Whoever starts
// processes imports it.
package descriptors

import (
	"errors"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// First is the first descriptor that a child does not get without being named.
const First = 3

// CloseOnExec marks every open descriptor from First on, so that the programs this process starts don't inherit it.
// What Go opens is marked already: this is for what the process itself was started with. A task that inherits a
// directory of the node has a way out of its root, and one that inherits a pipe or a lock holds what is not its own.
func CloseOnExec() error {
	err := unix.CloseRange(First, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	// Kernels before 5.11 lack the call or its flag, and filters of system calls that don't know it refuse it.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		err = markEach()
	}
	return fault.Wrap(err, fault.Internal, "close on exec", "the descriptors this process was started with")
}

// markEach is CloseOnExec by the list that the kernel shows. One that another thread closes meanwhile needs no mark,
// and one that it opens has it.
func markEach() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		if fd < First {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil &&
			!errors.Is(err, unix.EBADF) {
			return err
		}
	}
	return nil
}
