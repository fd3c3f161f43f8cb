package shim_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
)

// ownDisk is a block device of the test's own, which goes with the test. The file system that tests are run on may be
// on no device, or on several.
func ownDisk(t *testing.T, size int64) string {
	t.Helper()
	image, err := os.Create(filepath.Join(tempDir(t), "image"))
	if err != nil {
		t.Fatal(err)
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err = errors.Join(err, image.Truncate(size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(control.Close(), image.Close()); err != nil {
			t.Error(err)
		}
	})
	config := unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	for {
		path, err := attached(t, control, config)
		if err == nil {
			return path
		}
		if !errors.Is(err, unix.EBUSY) { // another one took it
			t.Fatal(err)
		}
	}
}

// attached is a loop device that is free when it is asked for. The kernel frees it when nobody has it open any more.
func attached(t *testing.T, control *os.File, config unix.LoopConfig) (string, error) {
	t.Helper()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", err
	}
	path := "/dev/loop" + strconv.Itoa(n)
	dev, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	if err := unix.IoctlLoopConfigure(int(dev.Fd()), &config); err != nil {
		return "", errors.Join(err, dev.Close())
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return path, nil
}

// TestATaskWritesNoFasterThanItsNodeAllows: past the page cache, which version 1 of the cgroups does not bound.
func TestATaskWritesNoFasterThanItsNodeAllows(t *testing.T) {
	if err := newLauncher(t).CheckIO(); err != nil {
		t.Fatal(err)
	}
	device := ownDisk(t, 8<<20)
	_, _, sh := isolated(t, exec.Config{IOMax: []string{device + " wbps=1048576"}}, func(tc *driver.TaskConfig) {
		tc.Devices = []driver.Device{{HostPath: device, TaskPath: "/dev/disk", Permissions: "rw"}}
	})
	const files = "cat /sys/fs/cgroup/blkio/blkio.throttle.write_bps_device /sys/fs/cgroup/io.max 2>/dev/null"
	bounds := sh(files + "; true")
	if !strings.Contains(bounds, "1048576") {
		t.Errorf("the task's cgroup has the bounds %q", bounds)
	}
	sh("timeout 1 dd if=/dev/urandom of=/dev/disk bs=64k count=128 oflag=direct; true")
	disk, err := os.ReadFile(device)
	if err != nil {
		t.Fatal(err)
	}
	written := len(bytes.TrimRight(disk, "\x00"))
	t.Logf("bounds %q: %d bytes are written in a second", bounds, written)
	// The kernel lets a slice of time pass at first; without a bound it is all, or what the disk takes in a second.
	if written == 0 || written > 6<<20 {
		t.Errorf("%d bytes are written in a second, at 1 MiB a second", written)
	}
}
