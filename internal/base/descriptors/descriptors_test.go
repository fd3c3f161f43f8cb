package descriptors

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// inherited opens a descriptor as a careless parent leaves it, with a number from the one given on.
func inherited(t *testing.T, from int) int {
	t.Helper()
	root, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	fd, err := unix.FcntlInt(root.Fd(), unix.F_DUPFD, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) }) // the test's own number
	return fd
}

func isMarked(t *testing.T, fd int) bool {
	t.Helper()
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil {
		t.Fatal(err)
	}
	return flags&unix.FD_CLOEXEC != 0
}

func TestChildrenInheritOnlyTheStandardDescriptors(t *testing.T) {
	for name, mark := range map[string]func() error{"by one call": CloseOnExec, "each": markEach} {
		t.Run(name, func(t *testing.T) {
			low, high := inherited(t, First), inherited(t, 251)
			if out := reach(t, high); !out {
				t.Fatal("the child does not see what was not marked: this test shows nothing")
			}
			if err := mark(); err != nil {
				t.Fatal(err)
			}
			for _, fd := range []int{low, high} {
				if !isMarked(t, fd) || reach(t, fd) {
					t.Errorf("descriptor %d reaches a child", fd)
				}
			}
			for fd := range First {
				if isMarked(t, fd) {
					t.Errorf("descriptor %d is closed at exec: children lose their standard streams", fd)
				}
			}
		})
	}
}

// reach reports whether a child finds a descriptor open.
func reach(t *testing.T, fd int) bool {
	t.Helper()
	err := exec.Command("/bin/sh", "-c", "test -e /proc/self/fd/"+strconv.Itoa(fd)).Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return err == nil
}
