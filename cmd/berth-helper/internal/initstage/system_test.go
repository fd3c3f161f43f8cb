package initstage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
