// Package flock owns how lock files are taken that name the process which has them. Everybody may import it.
package flock

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// outlives is how long a lock may outlive its process.
const outlives = 5 * time.Second

// Try takes a lock (unix.LOCK_EX or unix.LOCK_SH) on a file that says in decimal which process has it; unix.EWOULDBLOCK
// says that another has. Of one that was killed a child may have the lock for a moment: it was forked to start a
// program and has not got to that yet, which closes the file. So the lock of a process that has ended is waited for.
func Try(f *os.File, how int) error {
	for end := time.Now().Add(outlives); ; time.Sleep(5 * time.Millisecond) { // the kernel tells nobody of a lock's end
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || lives(f) || time.Now().After(end) {
			return err
		}
	}
}

// Name writes into a lock file that this process has its lock.
func Name(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// Release gives a lock back and closes its file. To close it would not be enough: a child that was forked, and is not
// yet at the program that it starts, has the file open too.
func Release(f *os.File) error { return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close()) }

// Ended reports whether the process is gone that has held a lock file last. Nothing is locked for that.
func Ended(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return !lives(f), nil
}

// lives reports whether the process lives that a lock file names; one that names none is somebody's who lives.
func lives(f *os.File) bool {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0) // what cannot be read names none
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:n])))
	if err != nil {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return !bytes.HasPrefix(rest, []byte("Z")) // a process that nobody has waited for yet holds nothing
}
