package shim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/privilege"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
)

// output is what a session has printed so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) has(s string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Contains(o.buf.String(), s)
}

// Given a session whose command somebody of the same user has stopped, when its client goes away, or its task ends,
// then the session ends, and so does the command.
func TestASessionWhoseCommandIsStoppedEnds(t *testing.T) {
	for _, tty := range []bool{false, true} {
		for _, end := range []string{"client", "task"} {
			task, _, sh := isolated(t, exec.Config{}, nil)
			ctx, leave := context.WithCancel(short(t))
			out, over := &output{}, make(chan error, 1)
			go func() {
				_, err := task.Exec(ctx, driver.ExecRequest{
					Command: []string{"/bin/sh", "-c", "echo begun; sleep 4711; echo over"},
					Stdout:  out,
					TTY:     tty,
				})
				over <- err
			}()
			until(t, "the command", func() bool { return out.has("begun") })
			until(t, "its child", func() bool { // which is another program by then
				all := sh(`for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; echo; done`)
				return strings.Contains(all, "\nsleep 4711")
			})
			sh(`for p in /proc/[0-9]*; do
				case "$(tr '\0' ' ' < $p/cmdline)" in
				"sleep 4711"*|"/bin/sh -c echo begun"*) kill -STOP ${p#/proc/};; esac
			done`)
			until(t, "the stop", func() bool { return sh(`cat /proc/[0-9]*/stat | grep -c ' T '`) == "2" })
			if end == "client" {
				leave()
			} else if err := task.Stop(short(t), "", 0); err != nil {
				t.Error(err)
			}
			select {
			case <-over:
			case <-time.After(time.Minute):
				t.Fatalf("by the end of the %s (terminal: %v) it does not end", end, tty)
			}
			if end == "client" {
				until(t, "the end of the command", func() bool {
					return sh(`cat /proc/[0-9]*/cmdline | tr '\0' ' ' | grep -c 'sleep 471[1]'`) == "0"
				})
			}
			leave()
		}
	}
}

// Given a task that hears a signal, when a command beside it sends that, then the task gets it. Of what the kernel
// shows to debuggers the command sees nothing where each is kept to its own sockets, as docs/security.md says.
func TestASessionSignalsItsTask(t *testing.T) {
	_, tc, sh := isolated(t, exec.Config{}, func(tc *driver.TaskConfig) {
		tc.Config["args"] = []any{"-c", `trap 'echo anew >> $GREETING_FILE' HUP; echo ready >> $GREETING_FILE
			while :; do sleep 0.1; done`}
		tc.Env["GREETING_FILE"] = "/alloc/data/heard"
	})
	heard := filepath.Join(tc.AllocDir, "data/heard")
	has := func(line string) func() bool {
		return func() bool {
			text, err := os.ReadFile(heard)
			return err == nil && strings.Contains(string(text), line)
		}
	}
	until(t, "the task", has("ready"))
	// Processes come and go meanwhile.
	const find = `for p in /proc/[0-9]*; do
		case "$(cat $p/cmdline 2> /dev/null | tr '\0' ' ')" in "/bin/sh -c trap "*) `
	if got := sh(find + `kill -HUP ${p#/proc/};; esac; done`); got != "" {
		t.Errorf("the command says %q", got)
	}
	until(t, "the signal", has("anew"))
	if !privilege.ScopesSockets() {
		return
	}
	for _, name := range []string{"environ", "fd/0", "maps", "root/", "ns/mnt"} {
		got := sh(find + `cat $p/` + name + ` || ls $p/` + name + `;; esac; done`)
		if !strings.Contains(got, "denied") {
			t.Errorf("of %s a command reads %q", name, got)
		}
	}
}

// shimOf is the process id of the shim that holds a task.
func shimOf(t *testing.T, task int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", task))
	if err != nil {
		t.Fatal(err)
	}
	_, parent, _ := strings.Cut(string(status), "PPid:")
	return strings.Fields(parent)[0]
}

// TestNoThreadOfAShimStaysInItsTasksGroups: the thread that waits for a task is where the shim's others are, in each
// hierarchy.
func TestNoThreadOfAShimStaysInItsTasksGroups(t *testing.T) {
	task, _, _ := isolated(t, exec.Config{}, nil)
	shim := shimOf(t, task.Handle().PID)
	home, err := os.ReadFile(fmt.Sprintf("/proc/%s/cgroup", shim))
	if err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%s/task/*/cgroup", shim))
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads of the shim: %v, %v", threads, err)
	}
	for _, thread := range threads {
		groups, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) {
			continue // a thread that has ended
		}
		if err != nil || string(groups) != string(home) {
			t.Errorf("%s: %v\n%snot those of the shim:\n%s", thread, err, groups, home)
		}
	}
}

// Given sessions with a terminal and without, of commands that run and that cannot, when they have ended, then the shim
// has as many files open as before, and nothing is said but what is the command's.
func TestSessionsLeaveTheirShimNoFiles(t *testing.T) {
	task, _, _ := isolated(t, exec.Config{}, nil)
	files := fmt.Sprintf("/proc/%s/fd", shimOf(t, task.Handle().PID))
	opened := func() int {
		entries, err := os.ReadDir(files)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for _, command := range []string{"/bin/true", "/no/such/command"} {
		for _, tty := range []bool{false, true} {
			sessions := func() {
				for range 10 {
					out := &output{}
					_, err := task.Exec(short(t), driver.ExecRequest{
						Command: []string{command},
						TTY:     tty,
						Stdout:  out,
						Stderr:  out,
					})
					if err != nil || out.has("bad file descriptor") {
						t.Errorf("%s (terminal %v): %v, %s", command, tty, err, &out.buf)
					}
				}
			}
			sessions() // the first one may open what stays
			before := opened()
			sessions()
			until(t, "the files of "+command+" are closed", func() bool { return opened() <= before })
		}
	}
}
