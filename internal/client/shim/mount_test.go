package shim_test

import (
	"os"
	osexec "os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := osexec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v (%s)", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func mustMount(t *testing.T, source, target, kind string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, ""); err != nil {
		t.Fatal(err)
	}
	if flags&(unix.MS_SHARED|unix.MS_PRIVATE) == 0 {
		t.Cleanup(func() {
			if err := unix.Unmount(target, 0); err != nil {
				t.Errorf("unmount %s: %v", target, err)
			}
		})
	}
}

func blockDevice(t *testing.T) string {
	entries, err := os.ReadDir("/sys/class/block")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := os.Stat("/dev/" + e.Name()); err == nil {
			return e.Name()
		}
	}
	t.Skip("the machine has no block device")
	return ""
}
