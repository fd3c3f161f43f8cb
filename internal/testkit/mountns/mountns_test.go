package mountns_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/testkit/mountns"
)

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// Given a mount of a test, when another process looks, then it is not there, and nobody who makes a namespace after it
// holds it.
func TestNobodyElseSeesWhatATestMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	outside, err := os.ReadFile("/proc/1/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(outside), dir) {
		t.Errorf("%s is mounted outside too", dir)
	}
	for env, want := range map[string]string{"": "there", mountns.Fresh: "gone"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTheMountOfAnother$", "-test.v")
		cmd.Env = append(os.Environ(), "MOUNTNS_TEST_DIR="+dir)
		if env != "" {
			cmd.Env = append(cmd.Env, env)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "the mount is "+want) {
			t.Errorf("with %q: %v\n%s", env, err, out)
		}
	}
}

// TestTheMountOfAnother tells whether its parent's mount is there.
func TestTheMountOfAnother(t *testing.T) {
	dir := os.Getenv("MOUNTNS_TEST_DIR")
	if dir == "" {
		t.Skip("it is a part of the test above")
	}
	var here, above unix.Stat_t
	for path, st := range map[string]*unix.Stat_t{dir: &here, filepath.Dir(dir): &above} {
		if err := unix.Stat(path, st); err != nil {
			t.Fatal(err)
		}
	}
	if here.Dev == above.Dev {
		t.Log("the mount is gone")
	} else {
		t.Log("the mount is there")
	}
}
