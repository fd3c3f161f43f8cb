package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/testkit/freeport"
)

// TestTheGuideOfServices: given the guide of a web service with its database, when its files are written and its
// commands typed in turn, then the web service finds its database, serves on while the agent is killed, and follows the
// database when it moves, though the agent is killed in that, too, without a restart of its own.
func TestTheGuideOfServices(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/services.md")
	must(t, err)
	m := inService(t)
	m.start()
	dir, port := t.TempDir(), freeport.Pick(t)
	for _, f := range pageFile.FindAllStringSubmatch(string(page), -1) {
		text := strings.Replace(f[2], "static = 8080", fmt.Sprintf("static = %d", port), 1)
		must(t, os.WriteFile(filepath.Join(dir, f[1]), []byte(text), 0o644))
	}
	client := &http.Client{Timeout: 30 * time.Second}
	get := func() string {
		res, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		must(t, err)
		return fmt.Sprint(res.StatusCode, " ", string(body))
	}
	m.mustCLI("job", "run", filepath.Join(dir, "db.nomad.hcl"))
	mustSay(t, "who is found", m.mustCLI("service", "info", "db"), ":6379")
	m.mustCLI("job", "run", filepath.Join(dir, "web.nomad.hcl"))
	m.eventually("a visit to be counted", func() bool { return strings.HasPrefix(get(), "200 visit ") })
	web, db := m.running("web", 1)[0], m.running("db", 1)[0]
	was := m.instances("db", "the database", func(l []*api.ServiceRegistration) bool { return len(l) == 1 })[0]
	m.crash()
	if got := get(); !strings.HasPrefix(got, "200 visit ") {
		t.Errorf("while the agent is down: %s", got)
	}
	m.start()
	m.mustCLI("alloc", "stop", "-detach", db.ID)
	m.crash()
	m.start()
	m.instances("db", "another database", func(l []*api.ServiceRegistration) bool {
		return len(l) == 1 && l[0].AllocID != was.AllocID
	})
	m.eventually("the web service to follow", func() bool { return strings.HasPrefix(get(), "200 visit ") })
	after := m.running("web", 1)[0]
	if after.ID != web.ID || after.TaskStates["web"].Restarts > 0 {
		t.Errorf("the web service was started anew: %s, was %s: %+v", after.ID, web.ID, after.TaskStates["web"])
	}
	m.stopJob("web")
	m.stopJob("db")
}
