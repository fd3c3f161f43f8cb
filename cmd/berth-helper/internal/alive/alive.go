// Package alive owns the helper's role of asking a file system whether it still works, in a process of its own: the
// kernel may keep whoever asks a dead one waiting for ever.
package alive

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Args is how many arguments Run takes.
const Args = 2

// Modes of asking.
const (
	Read  = "read"
	Write = "write"
)

// deaths are the errors that say that a file system is gone, whatever it is asked: the device fails or the file system
// was shut down, its process has ended (FUSE), its server has forgotten it (NFS).
var deaths = []error{unix.EIO, unix.ESHUTDOWN, unix.ENOTCONN, unix.ESTALE, errUnwritten}

// Run asks the file system that is mounted at a path for its figures, and, in the mode Write, to write down what it has
// of the directory there. It writes to out why the file system is dead, and nothing when it is not: what else is
// refused says nothing of that, as a permission that a FUSE process denies to others than its own user.
func Run(out io.Writer, args []string) error {
	path, mode := args[0], args[1]
	if mode != Read && mode != Write {
		return errors.New("it is asked for " + Read + " or " + Write + ", not " + mode)
	}
	err := ask(path, mode == Write)
	if !dead(err, mode == Write) {
		return nil
	}
	_, err = io.WriteString(out, err.Error())
	return err
}

func ask(path string, write bool) error {
	var figures unix.Statfs_t
	if err := unix.Statfs(path, &figures); err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || !write {
		return err
	}
	if err := unix.Fsync(fd); err != nil {
		return err
	}
	return unwritten(unix.Syncfs(fd))
}

// errUnwritten says that a file system shows what its disk does not have.
var errUnwritten = errors.New("what was written to it is not on its disk")

// unwritten is what the end of a syncfs says of the writes before it. It fails, once, after a write that failed in the
// background or under somebody's fsync: until the file system is mounted anew, the kernel shows what was written then.
func unwritten(err error) error {
	for _, no := range []error{unix.EIO, unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, no) {
			return fmt.Errorf("%w: %w", errUnwritten, err)
		}
	}
	return err
}

func dead(err error, write bool) bool {
	for _, d := range deaths {
		if errors.Is(err, d) {
			return true
		}
	}
	return write && errors.Is(err, unix.EROFS) // of a journal that was given up, before the mount table says so
}
