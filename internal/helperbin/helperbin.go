// Package helperbin owns the helper program inside berth: its bytes, and a file from which it is run. The program is
// built from cmd/berth-helper before berth is (make does both in order) and embedded here. Whoever starts helpers may
// import it: client/shim, the drivers and the agent.
//
// It is embedded compressed, which takes more than half of it off berth, and unpacked once in each process.
//
// The file is a sealed memory file: it needs no directory, nobody can replace or change it, and it lives as long as a
// process runs it, so that a helper outlives an upgrade of berth on disk.
package helperbin

import (
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// The folder always holds .gitkeep, so that the package compiles before the program was built.
//
//go:embed all:bin
var bin embed.FS

const program = "berth-helper"

// memory is the one memory file of this process: helpers that run from the same file share its pages.
var memory = sync.OnceValues(create)

// Open returns the helper program as an open, read-only, close-on-exec file that cannot change. The caller closes it,
// after Start. Run it as Path(file).
func Open() (*os.File, error) {
	mem, err := memory()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(Path(mem), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open", "the helper program")
	}
	return os.NewFile(uintptr(fd), program), nil
}

// Path is the name under which a child of this process runs the file. It goes by this process's descriptors and not by
// the child's own, because the child looks the name up after it has put its files in place, and any of them, or what
// the runtime moves aside for them, may have covered the number. The child's process name is then a number; the helper
// sets a better one itself.
func Path(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

func create() (*os.File, error) {
	packed, err := bin.Open("bin/" + program + ".gz")
	if err != nil {
		return nil, missing(err)
	}
	content, err := gzip.NewReader(packed)
	if err != nil {
		return nil, missing(err)
	}
	f, err := memfd()
	if err != nil {
		return nil, fault.Wrap(err, fault.Unsupported, "create", "a memory file for the helper program")
	}
	if _, err := io.Copy(f, content); err != nil {
		return nil, errors.Join(fault.Wrap(err, fault.Exhausted, "fill", "the helper's memory file"), f.Close())
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fault.Wrap(err, fault.Internal, "seal", "the helper's memory file"), f.Close())
	}
	return f, nil
}

// memfd asks for an executable memory file; kernels before 6.3 don't know that flag and always make one.
func memfd() (*os.File, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(program, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(program, flags)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), program), nil
}

func missing(err error) error {
	return &fault.Error{
		Kind:    fault.Internal,
		Op:      "open",
		Subject: "the helper program",
		Err:     fmt.Errorf("it is not part of this build: %w", err),
		Hint:    "helper not built: run make build, which builds cmd/berth-helper into internal/helperbin/bin first",
	}
}
