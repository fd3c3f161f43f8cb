package shim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/port/driver"
)

func TestAFullDiskLosesOutputAndSaysSo(t *testing.T) {
	l, logs := newLauncher(t), tempDir(t)
	if err := unix.Mount("tmpfs", logs, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(logs, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(logs, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 32<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	flag := filepath.Join(tempDir(t), "flag")
	p := start(t, l, ids.New(),
		`head -c 300000 /dev/zero | tr '\0' x; echo; touch `+flag+`; while test -e `+flag+
			`; do sleep 0.02; done; echo the end`, func(s *driver.LaunchSpec) { s.Logs.Dir = logs })
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(flag); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal("a full disk blocks the task")
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(short(t)); err != nil || !exit.Successful() {
		t.Errorf("exit %+v, %v", exit, err)
	}
	out, err := os.ReadFile(filepath.Join(logs, "web.stdout.0"))
	text := strings.TrimLeft(string(out), "x")
	if err != nil || !strings.Contains(text, "bytes of output were lost here: ") ||
		!strings.Contains(text, "no space left") || !strings.HasSuffix(text, "\nthe end\n") {
		t.Errorf("the log ends %q, %v", text, err)
	}
	if err := p.Kill(short(t), "", 0); err != nil {
		t.Error(err)
	}
}

func TestALinkInPlaceOfALogFileIsNotFollowed(t *testing.T) {
	l := newLauncher(t)
	logs := tempDir(t)
	victim := filepath.Join(tempDir(t), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(logs, "web.stdout.0")); err != nil {
		t.Fatal(err)
	}
	spec := &driver.LaunchSpec{
		AllocID: ids.New(),
		Task:    "web",
		Attempt: 1,
		Argv:    []string{"/bin/echo", "overwritten"},
		Logs:    driver.LogConfig{Dir: logs},
	}
	_, err := l.Launch(short(t), spec)
	if err == nil || !strings.Contains(err.Error(), logs) {
		t.Errorf("launch: %v", err)
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "precious" {
		t.Errorf("the victim holds %q, %v", got, err)
	}
	if left := cgroups(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
