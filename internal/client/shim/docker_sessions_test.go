package shim_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/port/driver"
	"berth/internal/testkit/await"
	"berth/internal/testkit/dockerd"
)

// running reports whether a process has these arguments.
func running(args ...string) bool {
	var want []byte
	for _, a := range args {
		want = append(append(want, a...), 0)
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	for _, path := range paths {
		if line, err := os.ReadFile(path); err == nil && bytes.Equal(line, want) {
			return true
		}
	}
	return false
}

// Given commands in a container, when the agent that held their sessions is gone and another takes the task up, or the
// daemon is killed, then they end with their sessions; what a command has left running when it ended goes on.
func TestACommandEndsWithWhoHeldItsSession(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-sessions-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	task := p.start(d, p.config("web"))
	begin := func(task driver.Task, seconds string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := task.Exec(t.Context(), driver.ExecRequest{Command: []string{"sleep", seconds}})
			done <- err
		}()
		await.Eventually(t, "the command to run", func() bool { return running("sleep", seconds) })
		return done
	}
	ends := func(done <-chan error, seconds string) {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("the session has not ended")
		}
		await.Eventually(t, "the command to end", func() bool { return !running("sleep", seconds) })
	}
	left := []string{"sleep", "48270"}
	if _, err := task.Exec(t.Context(), driver.ExecRequest{
		Command: []string{"sh", "-c", "sleep 48270 >/dev/null 2>&1 </dev/null &"},
	}); err != nil {
		t.Fatal(err)
	}
	session := begin(task, "48271")
	second := p.agent()
	p.says(driver.Healthy)
	task, err := second.Recover(t.Context(), task.Handle())
	if err != nil {
		t.Fatal(err)
	}
	ends(session, "48271")
	session = begin(task, "48272")
	p.daemon.Signal(unix.SIGKILL)
	ends(session, "48272")
	if !running(left...) {
		t.Error("what a command left running has ended")
	}
	p.daemon.Start()
	p.says(driver.Healthy)
	p.over(task)
}
