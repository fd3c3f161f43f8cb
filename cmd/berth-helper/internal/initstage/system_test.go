package initstage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/e2e/hostile"
	"berth/internal/shimproto"
)

// secrets of the node, which are masked like the kernel's.
var secrets = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/berth", "/etc/berth.d",
	"/etc/ssl/private"}

// Given a kernel and a node that have all that a task must not see or change, once as files and once as directories,
// when a task's root is covered, then nothing is read of the former and nothing is written of the latter. No kernel
// has all of it: here it lies in memory.
func TestWhatATaskMustNotSeeOrChangeIsCovered(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	for kind, inside := range map[string]string{"a file": "", "a directory": "of-the-node"} {
		dir := unshared(t)
		masked := slices.Concat(secrets, hostile.Masked)
		for _, p := range slices.Concat(masked, hostile.Sealed) {
			write(t, filepath.Join(dir, p, inside))
		}
		r := &root{iso: &shimproto.Isolate{NoNewPrivileges: true}, fd: openTask(t, dir)}
		if err := errors.Join(r.coverProc(), r.coverSys()); err != nil {
			t.Fatal(err)
		}
		for _, p := range masked {
			path := filepath.Join(dir, p)
			if inside == "" {
				if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
					t.Errorf("%s as %s reads %q, %v", p, kind, text, err)
				}
				continue
			}
			if names, err := os.ReadDir(path); err != nil || len(names) > 0 {
				t.Errorf("%s as %s has %v, %v", p, kind, names, err)
			}
			if err := os.Mkdir(filepath.Join(path, "made"), 0o700); !errors.Is(err, unix.EROFS) {
				t.Errorf("in %s as %s something was made: %v", p, kind, err)
			}
		}
		for _, p := range hostile.Sealed {
			path := filepath.Join(dir, p, inside)
			if text, err := os.ReadFile(path); err != nil || string(text) != "the node's" {
				t.Errorf("%s as %s reads %q, %v", p, kind, text, err)
			}
			if err := os.WriteFile(path, nil, 0o600); !errors.Is(err, unix.EROFS) {
				t.Errorf("%s as %s was written: %v", p, kind, err)
			}
		}
	}
}

// Given a storage plugin, which acts on the node, then its root has the node's devices, each once, its mounts confine
// nothing, and /proc and /sys are whole.
func TestTheRootOfWhoActsOnTheNodeConfinesNothing(t *testing.T) {
	root, source := place(t)
	pid, err := stage(t, &shimproto.Isolate{
		Root:        root,
		System:      []string{"/etc"},
		HostDevices: true,
		Devices: []shimproto.Device{
			{HostPath: "/dev/zero", TaskPath: "/dev/zero"},
			{HostPath: "/dev/zero", TaskPath: "/data/nil"},
		},
		Binds: []shimproto.Bind{{Source: source + "/data", Target: "/data"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	inside := fmt.Sprintf("/proc/%d/root", pid)
	ours, err := os.ReadDir("/dev")
	if err != nil {
		t.Fatal(err)
	}
	its, err := os.ReadDir(inside + "/dev")
	if err != nil || len(its) != len(ours) {
		t.Errorf("it sees %d devices of %d, %v", len(its), len(ours), err)
	}
	table := strings.Split(mounts(t, pid), "\n")
	for _, at := range []string{"/", "/data", "/etc"} {
		i := slices.IndexFunc(table, func(line string) bool { return strings.HasPrefix(line, at+" ") })
		if i < 0 || strings.Contains(table[i], "nosuid") || strings.Contains(table[i], "nodev") {
			t.Errorf("%s is mounted so: %q", at, table[max(i, 0)])
		}
	}
	for at, want := range map[string]bool{
		"/data/nil": true, "/dev/zero": false, "/proc/keys": false, "/proc/sys": false, "/sys/firmware": false,
	} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		if err != nil || strings.Contains(string(text), " "+at+" ") != want {
			t.Errorf("that %s is a mount is not %t, %v", at, want, err)
		}
	}
	var now, before unix.Stat_t
	if err := errors.Join(unix.Stat(inside+"/dev/zero", &now), unix.Stat("/dev/zero", &before)); err != nil ||
		now.Ino != before.Ino || now.Dev != before.Dev {
		t.Errorf("its /dev/zero is not the node's: %v", err)
	}
}

// openTask opens a directory as a task's root, with the device that files are masked by.
func openTask(t *testing.T, dir string) int {
	t.Helper()
	null := filepath.Join(dir, "dev/null")
	if err := errors.Join(os.MkdirAll(filepath.Dir(null), 0o755),
		unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) }) // of a path alone
	return fd
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, []byte("the node's"), 0o600)); err != nil {
		t.Fatal(err)
	}
}
