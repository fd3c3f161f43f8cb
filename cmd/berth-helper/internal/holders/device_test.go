package holders

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip("the machine has no " + name)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestADeviceIsKnownByWhatIsBehindIt: its number is given again, to another one that is none of ours.
func TestADeviceIsKnownByWhatIsBehindIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, make([]byte, 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "mkfs.ext4", "-q", image)
	loop := tool(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() { tool(t, "losetup", "--detach", loop) })
	var st unix.Stat_t
	if err := unix.Stat(loop, &st); err != nil {
		t.Fatal(err)
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	seq := sequence("/sys/dev/block/" + device)
	if seq == 0 {
		t.Skip("this kernel counts no devices")
	}
	is := func(device string, seq uint64, want string) {
		t.Helper()
		if state, err := probe(device, seq); err != nil || state != want {
			t.Errorf("device %s of number %d is %q, %v, want %s", device, seq, state, err, want)
		}
	}
	path := t.TempDir()
	if err := unix.Mount(loop, path, "ext4", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	})
	is(device, seq, heldDevice)
	is(device, 0, heldDevice)
	is(device, seq+1, otherDevice)
	is("7:1048000", 0, absentDevice)
}
