package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
