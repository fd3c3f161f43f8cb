package image_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/localcsi/image"
	"berth/internal/localcsi/watchdog"
	"berth/internal/testkit/mountns"
)

func TestMain(m *testing.M) {
	if os.Args[0] == watchdog.Role {
		os.Exit(watchdog.Main())
	}
	mountns.Main(m.Run)
}

// mounted is a file system of its own.
func mounted(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	file, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	for _, argv := range [][]string{{"truncate", "-s", "16M", file}, {"mkfs.ext4", "-q", file},
		{"mount", "-o", "loop", file, dir}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(image.Thaw(dir), unix.Unmount(dir, 0)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// frozen asks the kernel: of a file system that is frozen already it refuses to freeze it.
func frozen(t *testing.T, dir string) bool {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const fiFreeze = 0xc0045877
	err = unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0)
	if err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	if err == nil {
		if err := image.Thaw(dir); err != nil {
			t.Fatal(err)
		}
	}
	return err != nil
}

// Given work that is done before the limit, then the file system is frozen from its beginning to its end, not after.
func TestAFileSystemIsFrozenForAsLongAsTheWork(t *testing.T) {
	dir := mounted(t)
	err := image.WhileFrozen(t.Context(), dir, time.Hour, func(context.Context) error {
		for range 100 {
			if !frozen(t, dir) {
				return errors.New("it was thawed before the work was done")
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	if err != nil || frozen(t, dir) {
		t.Errorf("%v; frozen after it: %t", err, frozen(t, dir))
	}
}

// Given work that hangs, then its context has ended before the file system is thawed: what it did until then is of one
// moment. Its result does not count.
func TestWorkThatHangsIsCancelledBeforeTheThaw(t *testing.T) {
	dir := mounted(t)
	err := image.WhileFrozen(t.Context(), dir, 300*time.Millisecond, func(ctx context.Context) error {
		for frozen(t, dir) {
			time.Sleep(time.Millisecond)
		}
		if ctx.Err() == nil {
			t.Error("it was thawed before its limit")
		}
		return nil
	})
	if !errors.Is(err, image.ErrTooLong) || frozen(t, dir) {
		t.Errorf("%v; frozen after it: %t", err, frozen(t, dir))
	}
}

// Given a file system that somebody else thaws before the work is done, then the work does not count: what it saw is
// not of one moment.
func TestWorkOnAFileSystemThatOthersThawDoesNotCount(t *testing.T) {
	dir := mounted(t)
	err := image.WhileFrozen(t.Context(), dir, time.Hour, func(context.Context) error { return image.Thaw(dir) })
	if !errors.Is(err, image.ErrThawed) {
		t.Errorf("it ended with %v", err)
	}
}
