package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAVisitNamesNoThread: who visits writes "0" on both ways, which the kernel takes for the writer. A number lets it
// stop every fork of the machine, and the start of a task then takes ten milliseconds more. Nothing is left open, also
// when the visit ends half-way.
func TestAVisitNamesNoThread(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	holds := func(path, want string) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v; %q was to be written", filepath.Base(path), b, err, want)
		}
	}
	join, back := []string{file("join1"), file("join2")}, []string{file("back1"), file("back2")}
	v, err := Begin(join, back)
	if err != nil || len(v.Files()) != 2 {
		t.Fatalf("%v; kept: %v", err, v.Files())
	}
	open := v.Files()
	holds(join[0], "0")
	holds(join[1], "0")
	holds(back[0], "")
	if err := v.End(); err != nil {
		t.Error(err)
	}
	holds(back[0], "0")
	holds(back[1], "0")
	half, err := Begin([]string{file("join3"), filepath.Join(dir, "missing", "tasks")}, back)
	if err == nil || len(half.Files()) != 2 {
		t.Errorf("a group that is not there is joined: %v, kept %v", err, half.Files())
	}
	open = append(open, half.Files()...)
	if err := half.Close(); err != nil {
		t.Error(err)
	}
	for _, fd := range open {
		if _, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("descriptor %d is left open: %v", fd, err)
		}
	}
}
