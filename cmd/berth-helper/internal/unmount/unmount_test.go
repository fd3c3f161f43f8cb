package unmount

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mounted is a file system that is mounted for the test, and how it is named.
func mounted(t *testing.T) (path string, args []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	path = t.TempDir()
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Error(err)
		}
	})
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID_UNIQUE, &st); err != nil {
		t.Fatal(err)
	}
	id := "0"
	if st.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		id = strconv.FormatUint(st.Mnt_id, 10)
	}
	device := strconv.Itoa(int(st.Dev_major)) + ":" + strconv.Itoa(int(st.Dev_minor))
	return path, []string{path, id, device, "/"}
}

func isThere(t *testing.T, path string) bool {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(data), " "+path+" ")
}

// TestItUnmountsWhatIsMeantAndNothingElse: one of another id, device or root on top of the path stays.
func TestItUnmountsWhatIsMeantAndNothingElse(t *testing.T) {
	path, args := mounted(t)
	for i, other := range map[int]string{1: "1", 2: "0:1", 3: "/else"} {
		if i == 1 && args[1] == "0" {
			continue // this kernel has no such ids
		}
		wrong := append([]string{}, args...)
		wrong[i] = other
		if err := Run(wrong); err == nil || !isThere(t, path) {
			t.Errorf("asked for %v in the place of %v: %v", wrong, args, err)
		}
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	if err := Run(args); err == nil {
		t.Error("it unmounts what was mounted over what is meant")
	}
	if err := unix.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := Run(args); err != nil || isThere(t, path) {
		t.Errorf("what is meant is not unmounted: %v", err)
	}
	if err := Run(args); err == nil {
		t.Error("it is content where nothing is mounted")
	}
}

// TestItUnmountsNothingThatIsInUse: neither lazily nor by force, so that what holds it is still seen.
func TestItUnmountsNothingThatIsInUse(t *testing.T) {
	path, args := mounted(t)
	f, err := os.Create(path + "/used")
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(args); !errors.Is(err, unix.EBUSY) || !isThere(t, path) {
		t.Errorf("in use: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Run(args); err != nil {
		t.Error(err)
	}
}
