package procs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Given a process that has a file open, when it is looked for by way of a link, also after the file was removed, then
// it is found with its descriptor; and one that is killed is gone when that returns, but nobody who is not meant.
func TestWhoHasAFileOpenIsFoundAndEnded(t *testing.T) {
	real := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(link, "out")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "86399")
	cmd.Stdout = f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	for _, state := range []string{"there", "removed"} {
		for fd, want := range map[int]int{-1: 1, 1: 1, 2: 0} {
			got, err := Opened(fd, Real(path))
			if err != nil || len(got) != want || want == 1 && !slices.Contains(got, pid) {
				t.Errorf("%s, by descriptor %d: %v, %v", state, fd, got, err)
			}
		}
		if state == "there" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := Kill(pid, func() bool { return false }, time.Minute); err != nil {
		t.Error(err)
	}
	if _, err := StartTime(pid); err != nil {
		t.Errorf("one that was not meant: %v", err)
	}
	if err := Kill(pid, func() bool { return true }, time.Minute); err != nil {
		t.Error(err)
	}
	if _, err := StartTime(pid); err == nil {
		t.Error("it lives")
	}
	_ = cmd.Wait() // it was killed
	if err := Kill(pid, func() bool { return true }, time.Minute); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}
