// Package fileutil stands in for the one function of etcd that the log's library calls. etcd's own package comes with a
// logger that opens a socket without a file as soon as a program begins, to which every task with the node's network
// could send, and takes over what package log writes.
package fileutil

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Preallocate takes room for the first size bytes of a file, and with extend makes the file that long. Where the file
// system cannot set room aside, the file gets its length alone. An error is the kernel's, such as syscall.ENOSPC.
func Preallocate(f *os.File, size int64, extend bool) error {
	if size == 0 {
		return nil // the kernel calls that wrong
	}
	if !extend {
		return fmt.Errorf("preallocate %s: %w", f.Name(), errors.ErrUnsupported) // nobody asks for it
	}
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EOPNOTSUPP):
			return lengthen(f, size)
		case !errors.Is(err, syscall.EINTR):
			return os.NewSyscallError("fallocate", err)
		}
	}
}

func lengthen(f *os.File, size int64) error {
	st, err := f.Stat()
	if err != nil || st.Size() >= size {
		return err
	}
	return f.Truncate(size)
}
