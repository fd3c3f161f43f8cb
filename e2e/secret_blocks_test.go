package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// knower is a job whose texts name an item of a variable.
const knower = `
job "knower" {
  group "g" {
    update {
      min_healthy_time = "0s"
    }
    task "t" {
      driver = "exec"
      secret "db" {
        provider = "nomad"
        path     = "nomad/jobs/knower"
      }
      env {
        PASSWORD = "${secret.db.password}"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"$PASSWORD\" | tr a-z A-Z; exec sleep 1000"]
      }
    }
  }
}
`

// TestATaskKnowsItsSecret: given a job whose texts name an item of a variable that is not there, then its task waits,
// and says for what; when it is written the task starts with the value, which neither the API shows, nor the agent's
// log, nor any file of the agent.
func TestATaskKnowsItsSecret(t *testing.T) {
	m := newMachine(t, false)
	m.run(knower)
	await(m, "the task to say what it waits for", m.allocs("knower"), func(l []*api.AllocationListStub) bool {
		return len(l) == 1 && eventOf(l[0], `waits for variable "nomad/jobs/knower"`) != ""
	})
	secret := filepath.Join(m.root, "password")
	must(t, os.WriteFile(secret, []byte("kept-canary"), 0o600))
	if out, code := m.cli("var", "put", "nomad/jobs/knower", "password=@"+secret); code != 0 {
		t.Fatal(out)
	}
	a := m.running("knower", 1)[0]
	m.eventually("the task to have it", func() bool {
		out, _ := m.cli("alloc", "logs", a.ID, "t")
		return strings.TrimSpace(out) == "KEPT-CANARY"
	})
	must(t, os.Remove(secret))
	for _, words := range [][]string{{"job", "inspect", "knower"}, {"alloc", "status", "-json", a.ID}} {
		if out, code := m.cli(words...); code != 0 || strings.Contains(out, "kept-canary") {
			t.Errorf("%v: %d, it shows %s", words, code, out)
		}
	}
	if log, err := os.ReadFile(m.logPath()); err != nil || strings.Contains(string(log), "kept-canary") {
		t.Errorf("the agent's log shows it, or %v", err)
	}
	err := filepath.WalkDir(filepath.Join(m.root, "d"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(path, "/proc/") {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it went meanwhile
			}
			return err
		}
		if st, err := d.Info(); err != nil || st.Size() > 64<<20 {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "kept-canary") {
			t.Errorf("it lies in %s", path)
		}
		return nil
	})
	must(t, err)
	m.stopJob("knower")
}
