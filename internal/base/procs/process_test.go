package procs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given a process whose program has a name that looks like the rest of the line, when its start is read, then it is the
// same as that of any other; and one that has ended and was not waited for counts as ended.
func TestAProcessIsNamedByItsStart(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "a) R 1 1 1 (b")
	if err := os.WriteFile(program, data, 0o700); err != nil {
		t.Fatal(err)
	}
	own, err := StartTime(os.Getpid())
	if err != nil || own == 0 {
		t.Fatalf("this process: %d, %v", own, err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(program, "3600")
	cmd.ExtraFiles = []*os.File{in}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	start, err := StartTime(cmd.Process.Pid)
	if err != nil || start < own {
		t.Errorf("it started at %d, this process at %d: %v", start, own, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 1)) // its files are closed when it has ended
	for dead := false; !dead; {      // a moment later it is a zombie
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		dead = strings.Contains(string(status), "State:\tZ")
	}
	if _, err := StartTime(cmd.Process.Pid); !fault.Has(err, fault.NotFound) {
		t.Errorf("one that has ended: %v", err)
	}
	_ = cmd.Wait() // it was killed
	if _, err := StartTime(cmd.Process.Pid); !fault.Has(err, fault.NotFound) {
		t.Errorf("one that is gone: %v", err)
	}
}
