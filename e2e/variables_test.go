package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// follower is a job whose task has a password from a variable, and where itself is found as a service.
const follower = `
job "follower" {
  group "g" {
    network {
      port "http" {}
    }
    service {
      name     = "follower"
      provider = "nomad"
      port     = "http"
    }
    update {
      min_healthy_time = "0s"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo started with $PASSWORD; exec sleep 1000"]
      }
      template {
        data        = "{{ with nomadVar \"nomad/jobs/follower\" }}PASSWORD={{ .password }}{{ end }}"
        destination = "secrets/env"
        perms       = "0600"
        env         = true
        splay       = "1ms"
      }
      template {
        data        = "{{ range nomadService \"follower\" }}{{ .Address }}:{{ .Port }}{{ end }}"
        destination = "local/found"
        change_mode = "noop"
        splay       = "1ms"
      }
    }
  }
}
`

// TestATaskFollowsItsVariable: given a job whose template reads a variable that is not there, then it waits and says
// for what, no start is counted; when the variable is written it starts with it, and learns of itself as a service
// without a restart; a killed agent restarts nothing; and the next value restarts the task once.
func TestATaskFollowsItsVariable(t *testing.T) {
	m := newMachine(t, false)
	m.run(follower)
	waiting := await(m, "the task to say what it waits for", m.allocs("follower"),
		func(l []*api.AllocationListStub) bool {
			return len(l) == 1 && eventOf(l[0], `waits for variable "nomad/jobs/follower"`) != ""
		})[0]
	if st := waiting.TaskStates["t"]; st.State != "pending" || st.Restarts != 0 {
		t.Errorf("it is %+v", st)
	}
	secret := filepath.Join(m.root, "password")
	must(t, os.WriteFile(secret, []byte("first-canary"), 0o600))
	if out, code := m.cli("var", "put", "nomad/jobs/follower", "password=@"+secret); code != 0 {
		t.Fatal(out)
	}
	a := m.running("follower", 1)[0]
	pid := m.pid(a.ID, "t", "sleep")
	started := func(n int, last string) {
		t.Helper()
		m.eventually("the task to have started with "+last, func() bool {
			out, _ := m.cli("alloc", "logs", a.ID, "t")
			return strings.Count(out, "started with") == n && strings.HasSuffix(strings.TrimSpace(out), last)
		})
	}
	started(1, "first-canary")
	m.eventually("it to learn where it is found", func() bool {
		out, _ := m.cli("alloc", "fs", a.ID, "t/local/found")
		return strings.HasPrefix(out, "127.0.0.1:") || strings.Contains(out, ":2")
	})

	m.kill()
	m.start()
	m.running("follower", 1)
	m.settle()
	if now := m.pid(a.ID, "t", "sleep"); now != pid {
		t.Errorf("the task's process was %d and is %d", pid, now)
	}
	started(1, "first-canary")

	must(t, os.WriteFile(secret, []byte("second-canary"), 0o600))
	if out, code := m.cli("var", "put", "nomad/jobs/follower", "password=@"+secret); code == 0 ||
		!strings.Contains(out, "-check-index") {
		t.Errorf("written over another version: %s", out)
	}
	if out, code := m.cli("var", "put", "-force", "nomad/jobs/follower", "password=@"+secret); code != 0 {
		t.Fatal(out)
	}
	started(2, "second-canary")
	if log, err := os.ReadFile(m.logPath()); err != nil || strings.Contains(string(log), "canary") {
		t.Errorf("the agent's log shows it, or %v", err)
	}
	m.stopJob("follower")
}

func eventOf(a *api.AllocationListStub, says string) string {
	for _, st := range a.TaskStates {
		for _, e := range st.Events {
			if strings.Contains(e.DisplayMessage, says) {
				return e.DisplayMessage
			}
		}
	}
	return ""
}
