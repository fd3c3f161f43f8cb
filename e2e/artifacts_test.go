package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const fetches = `
job "fetcher" {
  group "g" {
    task "t" {
      driver = "exec"
      artifact {
        source      = "%s/file"
        destination = "local/in.tpl"
        mode        = "file"
      }
      template {
        source      = "local/in.tpl"
        destination = "local/out"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "cat local/out; exec sleep 10000"]
      }
    }
  }
}
`

// Given a download that is under way, when its agent is killed, then what downloads ends with it; the next agent begins
// anew, and the task finds the file, whole, and nothing else. When a job is stopped that still downloads, that ends
// too.
func TestADownloadEndsWithItsAgentAndIsBegunAnew(t *testing.T) {
	m := prepare(t, false)
	at := filepath.Join(m.root, "agent.hcl")
	text, err := os.ReadFile(at)
	must(t, err)
	const enabled = "enabled   = true\n"
	allowed := strings.Replace(string(text), enabled, enabled+"artifact { allow_addresses = [\"127.0.0.1\"] }\n", 1)
	must(t, os.WriteFile(at, []byte(allowed), 0o600))

	var whole atomic.Bool
	begun, ended := make(chan struct{}, 10), make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half ")
		if whole.Load() {
			_, _ = io.WriteString(w, "and half {{ env \"NOMAD_TASK_NAME\" }}\n")
			return
		}
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	}))
	t.Cleanup(s.Close)
	hears := func(c chan struct{}, what string) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(patience):
			t.Fatal(what)
		}
	}
	m.start()
	m.run(fmt.Sprintf(fetches, s.URL))
	hears(begun, "nothing is downloaded")
	m.kill()
	hears(ended, "the download goes on without its agent")
	whole.Store(true)
	m.start()
	a := m.running("fetcher", 1)[0]
	dir := filepath.Join(m.data, "alloc", a.ID, "t", "local")
	rendered, err := os.ReadFile(filepath.Join(dir, "out"))
	must(t, err)
	if string(rendered) != "half and half t\n" {
		t.Errorf("of the file is rendered %q", rendered)
	}
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 2 {
		t.Errorf("beside the file and what is rendered there are %v", left)
	}
	m.stopJob("fetcher")

	whole.Store(false)
	m.run(strings.Replace(fmt.Sprintf(fetches, s.URL), `"fetcher"`, `"stopped"`, 1))
	hears(begun, "nothing is downloaded")
	m.tellStop("stopped")
	hears(ended, "the download goes on although its job is stopped")
	m.ended("stopped")
}
