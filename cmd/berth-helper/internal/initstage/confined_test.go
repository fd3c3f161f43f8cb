package initstage

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/shimproto"
)

// traps puts a set-user-id program of root's and a device's node into a directory.
func traps(t *testing.T, dir string) {
	t.Helper()
	program, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Fatal(err)
	}
	id, zero := filepath.Join(dir, "id"), filepath.Join(dir, "zero")
	if err := errors.Join(os.WriteFile(id, program, 0o755), os.Chmod(id, os.ModeSetuid|0o755),
		unix.Mknod(zero, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))), os.Chmod(zero, 0o666)); err != nil {
		t.Fatal(err)
	}
}

// Given a volume with a set-user-id program of root's and the node of a device, and another file system mounted below
// it with the same, when nobody uses them in a root that is confined, without anything else that keeps privileges off,
// then the program runs as nobody and the device is not opened. In a root that is not confined they are what they are.
func TestWhatLiesOnAVolumeGivesNoPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	root, source := place(t)
	below := filepath.Join(source, "data")
	if err := unix.Mount("tmpfs", below, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(below, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	traps(t, source)
	traps(t, below)
	if err := errors.Join(os.Chmod(source, 0o755), os.Chmod(below, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, confined := range []bool{true, false} {
		pid, err := stage(t, &shimproto.Isolate{
			Root:            root,
			System:          []string{"/usr", "/bin", "/lib", "/lib64"},
			NoNewPrivileges: confined,
			Binds:           []shimproto.Bind{{Source: source, Target: "/volume"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		nobody := func(command ...string) string {
			enter := []string{"--target", strconv.Itoa(pid), "--mount", "--setuid", "65534", "--setgid", "65534", "--"}
			out, err := exec.Command("nsenter", append(enter, command...)...).CombinedOutput()
			if err != nil {
				return "refused: " + string(out)
			}
			return strings.TrimSpace(string(out))
		}
		user, device := "65534", "refused: "
		if !confined {
			user, device = "0", "1"
		}
		for _, dir := range []string{"/volume", "/volume/data"} {
			if got := nobody(dir+"/id", "-u"); got != user {
				t.Errorf("%s, confined %v: the program runs as %s, want %s", dir, confined, got, user)
			}
			if got := nobody("sh", "-c", "head -c 1 "+dir+"/zero | wc -c"); !confined && got != device ||
				confined && !strings.Contains(got, "denied") {
				t.Errorf("%s, confined %v: of the device comes %s", dir, confined, got)
			}
		}
	}
}

// Given volumes in whose directories mount points are missing, when a job's mounts are made there, then what had to be
// made belongs to whom the directory belongs that it lies in; what was there stays as it is.
func TestAMountPointBelongsToWhomItsDirectoryBelongs(t *testing.T) {
	root, source := place(t)
	theirs := filepath.Join(source, "theirs")
	if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 1234, 2345)); err != nil {
		t.Fatal(err)
	}
	if _, err := stage(t, &shimproto.Isolate{
		Root:            root,
		NoNewPrivileges: true,
		Binds: []shimproto.Bind{
			{Source: source, Target: "/volume"},
			{Source: source + "/data", Target: "/volume/theirs/deep/er"},
			{Source: source + "/single", Target: "/volume/theirs/file"},
			{Source: source + "/data", Target: "/volume/ours"},
			{Source: source + "/data", Target: "/own"},
		},
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"theirs":         "1234:2345",
		"theirs/deep":    "1234:2345",
		"theirs/deep/er": "1234:2345",
		"theirs/file":    "1234:2345",
		"ours":           "0:0",
		"data":           "0:0",
	} {
		if got := ownerOf(t, filepath.Join(source, name)); got != want {
			t.Errorf("%s belongs to %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]os.FileMode{"theirs/deep": 0o755, "theirs/file": 0o644} {
		if st, err := os.Lstat(filepath.Join(source, name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, st, err, want)
		}
	}
}
