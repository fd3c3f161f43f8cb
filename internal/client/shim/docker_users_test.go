package shim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
	"berth/internal/testkit/dockerd"
)

// Given a user whom only the image knows, then a task runs as him, and has its own directories; one whom the image does
// not know is refused by name.
func TestUsersOfContainersAreThoseOfTheImage(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-users-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.config("web")
	cfg.User = "image"
	cfg.Config["args"] = []any{"-c", "id -u; id -g; touch local/mine secrets/mine && echo wrote"}
	for _, name := range []string{"local", "secrets"} {
		if err := os.Chmod(filepath.Join(cfg.TaskDir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	task := p.start(d, cfg)
	p.logged(cfg, "4242\n4243\nwrote\n")
	p.over(task)
	cfg = p.config("web")
	cfg.User = "stranger"
	_, err := d.Start(t.Context(), cfg)
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "stranger") {
		t.Errorf("a user whom the image does not know: %v", err)
	}
	if all := p.daemon.Containers(); len(all) > 0 {
		t.Errorf("left behind: %v", all)
	}
}
