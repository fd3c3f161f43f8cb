package taskhooks_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/client/taskhooks"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Given what a job was dispatched with, when a task of it starts, then it is in the file that the task names; what is
// too large, and a file that leads out of the task's directory, are refused, and nothing is written there.
func TestATaskFindsThePayloadOfItsJob(t *testing.T) {
	x := withTemplates(t, driver.IsolationChroot)
	x.Task.Job = &job.Job{Payload: []byte("it is late\n")}
	x.Task.Task.DispatchPayload = &job.DispatchPayload{File: "in/p.txt"}
	h := taskhooks.Payload{}
	if err := h.Prestart(t.Context(), x.Task); err != nil || x.read(t, "local/in/p.txt") != "it is late\n" {
		t.Fatalf("the file says %q: %v", x.read(t, "local/in/p.txt"), err)
	}
	if err := os.WriteFile(filepath.Join(x.TaskDir, "local/in/p.txt"), []byte("made"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.Restored = true
	if err := h.Prestart(t.Context(), x.Task); err != nil || x.read(t, "local/in/p.txt") != "made" {
		t.Errorf("what a running task made of it is %q: %v", x.read(t, "local/in/p.txt"), err)
	}
	x.Restored = false

	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(x.TaskDir, "local/out")); err != nil {
		t.Fatal(err)
	}
	x.Task.Task.DispatchPayload.File = "out/p.txt"
	err := h.Prestart(t.Context(), x.Task)
	if left, _ := os.ReadDir(outside); err == nil || len(left) > 0 {
		t.Errorf("through a link out: %v, and there are %d files", err, len(left))
	}
	x.Task.Task.DispatchPayload.File = "big"
	x.Task.Job.Payload = bytes.Repeat([]byte("x"), job.MaxPayload+1)
	if err := h.Prestart(t.Context(), x.Task); err == nil {
		t.Error("a payload larger than any is written")
	}
}
