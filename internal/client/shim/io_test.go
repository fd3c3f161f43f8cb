package shim_test

import (
	"strings"
	"testing"
	"time"

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
	began := time.Now()
	out := sh("dd if=/dev/zero of=/local/written bs=64k count=48 oflag=direct 2>&1; rm /local/written")
	if took := time.Since(began); took < 2*time.Second { // 3 MiB; the kernel lets a slice of time pass at first
		t.Errorf("3 MiB are written in %v at 1 MiB a second: %s", took, out)
	}
}
