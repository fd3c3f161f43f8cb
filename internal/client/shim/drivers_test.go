package shim_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/rawexec"
)

func TestRawExecConforms(t *testing.T) {
	t.Parallel()
	drivertest.Run(t,
		harness("raw-exec-"+slice, func(l driver.Launcher) driver.Driver {
			return rawexec.New(rawexec.Config{Enabled: true}, l)
		}))
}

func TestExecConforms(t *testing.T) {
	t.Parallel()
	drivertest.Run(t,
		harness("exec-only-"+slice, func(l driver.Launcher) driver.Driver { return exec.New(exec.Config{}, l) }))
}

// harness gives a suite a slice of its own: what is left behind is its own, whatever runs beside it.
func harness(slice string, makeDriver func(driver.Launcher) driver.Driver) drivertest.Factory {
	return func(t *testing.T) *drivertest.Harness {
		dir, err := os.MkdirTemp("/tmp", "shim")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := launcherIn(t, dir, slice).EndAll(short(t)); err != nil {
				t.Error(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		return &drivertest.Harness{
			New:    func(t testing.TB) driver.Driver { return makeDriver(launcherIn(t, dir, slice)) },
			Holder: func(t testing.TB, h driver.TaskHandle) int { return processHandle(t, h).ShimPID },
			Leftovers: func(t testing.TB) []string {
				return slices.Concat(cgroupsOf(t, slice), sockets(t, dir), mounts(t, dir))
			},
		}
	}
}

func processHandle(t testing.TB, h driver.TaskHandle) driver.ProcessHandle {
	t.Helper()
	var p driver.ProcessHandle
	if err := json.Unmarshal(h.State, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// cgroups lists the groups of this test run in every hierarchy.
func cgroups(t testing.TB) []string { t.Helper(); return cgroupsOf(t, slice) }

func cgroupsOf(t testing.TB, slice string) (found []string) {
	t.Helper()
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // a group that went away
		}
		if d.IsDir() && slices.Contains(strings.Split(path, "/"), slice) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// mounts lists the node's mounts at or below a directory.
func mounts(t testing.TB, dir string) (found []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

func sockets(t testing.TB, dir string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "root" {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found
}
