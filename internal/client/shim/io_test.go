package shim_test

import (
	"strconv"
	"strings"
	"testing"

	"berth/internal/port/driver/exec"
)

// TestATaskWritesNoFasterThanItsNodeAllows: past the page cache, which version 1 of the cgroups does not bound.
func TestATaskWritesNoFasterThanItsNodeAllows(t *testing.T) {
	cfg := exec.Config{IOMax: []string{tempDir(t) + " wbps=1048576"}}
	if err := exec.New(cfg, nil).Unbounded(); err != nil {
		t.Skip(err) // a file system on no device or on several
	}
	if err := newLauncher(t).CheckIO(); err != nil {
		t.Skip(err)
	}
	_, _, sh := isolated(t, cfg, nil)
	const files = "cat /sys/fs/cgroup/blkio/blkio.throttle.write_bps_device /sys/fs/cgroup/io.max 2>/dev/null"
	if got := sh(files + "; true"); !strings.Contains(got, "1048576") {
		t.Errorf("the task's cgroup has the bounds %q", got)
	}
	const writes = "timeout 1 dd if=/dev/zero of=/local/written bs=64k count=4000 oflag=direct 2>/dev/null; "
	size := strings.TrimSpace(sh(writes + "stat -c %s /local/written; rm /local/written"))
	// The kernel lets a slice of time pass at first; without a bound it is all, or what the disk takes in a second.
	if n, err := strconv.ParseInt(size, 10, 64); err != nil || n > 8<<20 {
		t.Errorf("%q bytes are written in a second, at 1 MiB a second", size)
	}
}
