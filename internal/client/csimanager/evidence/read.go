package evidence

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/sizes"
	"berth/internal/port/hostfs"
)

// largestIDFile is far more than an id file of ours has: it describes one volume.
const largestIDFile = 1 << 20

// read reads an id file. It lies where the plugin writes, too: what is no file, or too large for one of ours, is
// refused by its name. Nobody waits for it, follows it elsewhere, or has all of it in memory.
func read(name string) ([]byte, error) {
	f, err := open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	st, err := f.Stat()
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", name)
	}
	refuse := func(why string) error {
		return fault.WithHint(fault.New(fault.Invalid, "read", name, why),
			"it is none of ours: find out who made it, a storage plugin can write there, and remove it")
	}
	if !st.Mode().IsRegular() {
		return nil, refuse("it is no regular file but " + st.Mode().Type().String())
	}
	data, err := io.ReadAll(io.LimitReader(f, largestIDFile+1))
	switch {
	case err != nil:
		return nil, fault.Wrap(err, fault.Internal, "read", name)
	case len(data) > largestIDFile:
		return nil, refuse(fmt.Sprintf("it has %s or more, and no id file has more than %s",
			sizes.Human(max(st.Size(), largestIDFile+1)), sizes.Human(largestIDFile)))
	}
	return data, nil
}

// open opens what a path names if nothing of the path is a symbolic link: a plugin can put one in the place of the
// directories of id files, too, and what lies behind is none of ours.
func open(name string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err == nil {
		return os.NewFile(uintptr(fd), name), nil
	}
	err = fault.Wrap(err, fault.Internal, "open", name)
	if errors.Is(err, unix.ELOOP) {
		err = fault.WithHint(err, "it, or a directory above it, is a symbolic link, which is none of ours: find out "+
			"who made it, a storage plugin can write there, and remove it")
	}
	return nil, err
}

// within does something to a file by a path that leads into its directory and nowhere else.
func within(name string, do func(path string) error) error {
	dir, err := open(filepath.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // nothing is written by it
	return do(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(name)))
}

// write writes an id file, beneath its own directory alone.
func write(name string, data []byte) error {
	return within(name, func(path string) error {
		return fault.Wrap(hostfs.WriteFileSync(path, data, 0o600), fault.Internal, "write", name)
	})
}

// remove removes an id file, beneath its own directory alone.
func remove(name string) error {
	return within(name, func(path string) error {
		return fault.Wrap(os.Remove(path), fault.Internal, "remove", name)
	})
}
