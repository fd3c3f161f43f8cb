package shim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/testkit/dockerd"
	"berth/internal/testkit/dockerd/between"
)

// attacker is a task whose script is run by the shell of the image.
func (p *docked) attacker(name, script string, volumes ...any) *driver.TaskConfig {
	p.t.Helper()
	cfg := drivertest.Config(p.t, filepath.Join(p.dir, ids.New()), ids.Alloc(ids.New()), name, script)
	inBusybox(cfg)
	if len(volumes) > 0 {
		cfg.Config["volumes"] = volumes
	}
	return cfg
}

// outside is a directory of the node that no task is to see.
func (p *docked) outside() (dir, word string) {
	p.t.Helper()
	dir, word = filepath.Join(p.dir, "outside"), "word of the node"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "word"), []byte(word), 0o644); err != nil {
		p.t.Fatal(err)
	}
	return dir, word
}

// Given a directory that tasks of an alloc share, when one of them puts a link in its place after it was looked at and
// before the daemon mounts it, then the container sees what was looked at, and nothing of the node.
func TestALinkThatComesLateLeadsNowhere(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-late-"+slice)
	outside, word := p.outside()
	cfg := p.attacker("web", "cat /x/word; echo over", "../alloc/x:/x")
	shared := filepath.Join(cfg.AllocDir, "x")
	if err := os.MkdirAll(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	swapped := false
	tap := between.New(t, p.daemon.Socket(), func(c between.Call) {
		if swapped || !c.Before || !strings.HasSuffix(c.Path, "/start") {
			return
		}
		swapped = true
		if err := os.Rename(shared, shared+".old"); err != nil {
			t.Error(err)
		}
		if err := os.Symlink(outside, shared); err != nil {
			t.Error(err)
		}
	})
	d := p.agent(func(c *docker.Config) { c.Socket = tap.Socket() })
	p.says(driver.Healthy)
	task := p.start(d, cfg)
	if _, err := task.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(cfg.Logs.Dir, "web.stdout.0"))
	if err != nil || strings.Contains(string(text), word) {
		t.Errorf("the task read %q: %v", text, err)
	}
	p.over(task)
}

// Given a task that mounts its own directory, then it cannot put a link in the place of one that its next start is
// given.
func TestATaskCannotMoveItsOwnDirectories(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-moved-"+slice)
	outside, word := p.outside()
	d := p.agent()
	p.says(driver.Healthy)
	for _, own := range []string{".", "local/..", "../" + "web"} {
		cfg := p.attacker("web", "mv /t/local /t/kept; ln -s "+outside+" /t/local; ls -l /t", own+":/t",
			"local/y:/local")
		if task, err := d.Start(t.Context(), cfg); err == nil {
			if _, err := task.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			p.over(task)
		} else if !fault.Has(err, fault.Denied) {
			t.Errorf("%s: %v", own, err)
		}
		cfg.Attempt++
		cfg.Config["args"] = []any{"-c", "cat /local/word; echo over"}
		delete(cfg.Config, "volumes")
		task, err := d.Start(t.Context(), cfg)
		if err != nil {
			t.Errorf("%s: it cannot start any more: %v", own, err)
			continue
		}
		if _, err := task.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(filepath.Join(cfg.Logs.Dir, "web.stdout.0"))
		if err != nil || strings.Contains(string(text), word) {
			t.Errorf("%s: the task read %q: %v", own, text, err)
		}
		p.over(task)
	}
}

// Given tasks that mount what they share at another place, or something else over their output, then they cannot write
// where their output is kept.
func TestATaskCannotTouchItsLogs(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-logs-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	for _, volumes := range [][]any{
		{"../alloc:/x"},
		{"../alloc:/x", "local/y:/alloc/logs"},
		{"../alloc:/alloc", "../alloc:/x"},
		{"../alloc/logs:/x/logs"},
	} {
		cfg := p.attacker("web", "mkdir /x/logs/made; mv /x/logs /x/gone && ln -s /etc /x/logs; echo over", volumes...)
		task, err := d.Start(t.Context(), cfg)
		if err != nil {
			t.Errorf("%v: %v", volumes, err)
			continue
		}
		if _, err := task.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		st, err := os.Lstat(cfg.Logs.Dir)
		if err != nil || !st.IsDir() {
			t.Errorf("%v: the directory was moved: %v, %v", volumes, st, err)
		}
		if _, err := os.Lstat(filepath.Join(cfg.Logs.Dir, "made")); err == nil {
			t.Errorf("%v: it was written to", volumes)
		}
		p.over(task)
	}
}
