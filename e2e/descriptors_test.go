package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// shellJob is a job whose one task runs a shell script; more goes into the task's config.
func shellJob(id, driver, script, more string) string {
	script = strings.ReplaceAll(strings.ReplaceAll(script, "${", "$${"), "%{", "%%{")
	return fmt.Sprintf(`
job %q {
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = %q
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
        %s
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`, id, driver, script, more)
}

// output is what a shellJob's task has written.
func (m *machine) output(alloc string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.data, "alloc", alloc, "alloc/logs/t.stdout.0"))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(data)
}

// inherit gives the agent that is started next a directory as descriptor 9 and a pipe as 251, as a careless shell does.
func (m *machine) inherit() {
	m.t.Helper()
	root, err := os.Open("/")
	must(m.t, err)
	r, w, err := os.Pipe()
	must(m.t, err)
	m.t.Cleanup(func() { root.Close(); r.Close(); w.Close() })
	m.files = make([]*os.File, 251-2)
	m.files[9-3], m.files[251-3] = root, w
}

// listed takes a listing of descriptors apart; the one that it was read through is not in it.
func listed(text string) (fds []string) {
	for line := range strings.Lines(text) {
		if name, to, ok := strings.Cut(line, " -> "); ok && !strings.HasPrefix(to, "/proc/") {
			f := strings.Fields(name)
			fds = append(fds, f[len(f)-1])
		}
	}
	return fds
}

// TestNoDescriptorOfTheAgentReachesATask: what the agent was started with must not lead a task out of its root.
func TestNoDescriptorOfTheAgentReachesATask(t *testing.T) {
	m := prepare(t, false)
	m.inherit()
	m.start()
	standard := []string{"0", "1", "2"}
	for _, driver := range []string{"exec", "raw_exec"} {
		m.run(shellJob(driver, driver, "ls -l /proc/self/fd; echo listed; exec sleep 1000", ""))
		a := m.running(driver, 1)[0]
		m.eventually("the task to list its descriptors", func() bool {
			return strings.Contains(m.output(a.ID), "listed")
		})
		if got := listed(m.output(a.ID)); !slices.Equal(got, standard) {
			t.Errorf("a task of %s has descriptors %v:\n%s", driver, got, m.output(a.ID))
		}
		out, code := m.cli("alloc", "exec", "-i=false", "-t=false", a.ID, "ls", "-l", "/proc/self/fd")
		if got := listed(out); code != 0 || !slices.Equal(got, standard) {
			t.Errorf("a session in a task of %s has descriptors %v (exit code %d):\n%s", driver, got, code, out)
		}
		m.stopJob(driver)
	}
}

// flood keeps so many connections at the API's port, and so many at its socket, each of which asks for what does not
// come and asks anew when it is sent away, until the returned function ends them. It has begun when the agent has
// refused some.
func (m *machine) flood(port, socket int) (end func()) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(m.t.Context())
	var work sync.WaitGroup
	for i := range port + socket {
		network, address := "unix", m.socket()
		if i < port {
			network, address = "tcp", fmt.Sprintf("127.0.0.1:%d", m.port)
		}
		work.Go(func() {
			for ctx.Err() == nil {
				c, err := net.Dial(network, address)
				if err != nil {
					continue // nobody takes it: the next try is what a flood is
				}
				hangUp := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, err = io.WriteString(c, "GET /v1/jobs?index=1000000&wait=5m HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if err == nil {
					_, _ = io.Copy(io.Discard, c) // until the agent, or the end, closes it
				}
				hangUp()
				_ = c.Close()
			}
		})
	}
	m.eventually("the agent to refuse connections", func() bool {
		return m.logged("a connection to the HTTP API was refused")
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// TestAFloodOfConnectionsLeavesDescriptorsForTasks: given an agent that may open a thousand files, when more
// connections than that hold on to its API, then it starts tasks as before and its drivers stay healthy. One user of
// the socket has an eighth of the descriptors: this test, who is the same, keeps a part of that for its own calls.
func TestAFloodOfConnectionsLeavesDescriptorsForTasks(t *testing.T) {
	m := prepare(t, false)
	m.wrap = func(cmd *exec.Cmd) { // Go raises the soft limit to the hard one: that is the one to set
		cmd.Args = append([]string{"/bin/sh", "-c", `ulimit -n 1000 && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
	m.start()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", m.cmd.Process.Pid))
	must(t, err)
	if !regexp.MustCompile(`Max open files +1000 +1000 `).Match(limits) {
		t.Fatalf("the agent has other limits:\n%s", limits)
	}
	end := m.flood(1200, 80)
	defer end()
	const each = 8
	for _, driver := range []string{"exec", "raw_exec"} {
		hcl := shellJob(driver, driver, "exec sleep 1000", "")
		m.run(strings.Replace(hcl, `group "g" {`, fmt.Sprintf("group \"g\" {\n count = %d", each), 1))
		m.running(driver, each)
	}
	all, _, err := m.api.Nodes().List(t.Context(), nil)
	must(t, err)
	n, _, err := m.api.Nodes().Get(t.Context(), all[0].ID, nil)
	must(t, err)
	for _, driver := range []string{"exec", "raw_exec"} {
		if d := n.Drivers[driver]; d == nil || !d.Healthy {
			t.Errorf("the driver %s is %+v", driver, d)
		}
	}
	if m.logged("too many open files") {
		t.Error("the agent had no descriptors left")
	}
}
