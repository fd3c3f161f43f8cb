package shim_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/port/driver/docker/images"
	"berth/internal/port/driver/docker/spec"
	"berth/internal/testkit/dockerd"
)

// docked is the driver docker, as the agents of one node use it one after the other.
type docked struct {
	t      testing.TB
	daemon *dockerd.Daemon
	dir    string // of this node
	slice  string
	fps    chan driver.Fingerprint

	mu  sync.Mutex
	end func() // of the agent that runs
}

func newDocked(t testing.TB, daemon *dockerd.Daemon, slice string) *docked {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "dock")
	if err != nil {
		t.Fatal(err)
	}
	p := &docked{t: t, daemon: daemon, dir: dir, slice: slice}
	t.Cleanup(func() {
		p.stop()
		if err := launcherIn(t, filepath.Join(dir, "shim"), slice).EndAll(short(t)); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *docked) stop() {
	p.mu.Lock()
	end := p.end
	p.end = nil
	p.mu.Unlock()
	if end != nil {
		end()
	}
}

// agent begins a new run of the agent.
func (p *docked) agent(change ...func(*docker.Config)) *docker.Driver {
	p.t.Helper()
	p.stop()
	cfg := docker.Config{
		Socket:   p.daemon.Socket(),
		Dir:      filepath.Join(p.dir, "driver"),
		Launcher: launcherIn(p.t, filepath.Join(p.dir, "shim"), p.slice),
		Policy:   spec.Policy{Node: func() spec.Node { return spec.Node{ID: p.slice, Name: "test"} }},
		Log:      slog.New(slog.DiscardHandler),

		Images: images.Config{Keep: true},
	}
	for _, c := range change {
		c(&cfg)
	}
	d := docker.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	p.fps = make(chan driver.Fingerprint, 100)
	fps := p.fps
	g.Go("driver", func() error {
		return d.Follow(gctx, func(f driver.Fingerprint) {
			select {
			case fps <- f:
			default: // nobody reads so many
			}
		})
	})
	p.mu.Lock()
	p.end = func() {
		cancel()
		if err := g.Wait(); err != nil {
			p.t.Error(err)
		}
	}
	p.mu.Unlock()
	return d
}

// says waits until the driver says that it is so.
func (p *docked) says(h driver.Health) driver.Fingerprint {
	p.t.Helper()
	for {
		select {
		case f := <-p.fps:
			if f.Health == h {
				return f
			}
			p.t.Log(f)
		case <-time.After(time.Minute):
			p.t.Fatalf("the driver is not %s after a minute", h)
		}
	}
}

// logReader is what reads the output of a task.
func logReader(t testing.TB, h driver.TaskHandle) driver.ProcessHandle {
	t.Helper()
	var st struct{ Output driver.ProcessHandle }
	if err := json.Unmarshal(h.State, &st); err != nil {
		t.Fatal(err)
	}
	return st.Output
}

// inBusybox makes a task one of the daemon's image.
func inBusybox(cfg *driver.TaskConfig) { cfg.Config["image"] = dockerd.Image }

// Given a Docker daemon, when the suite of all drivers is run with containers, then it passes, but for what the driver
// does not claim.
func TestDockerConforms(t *testing.T) {
	t.Parallel()
	daemon := dockerd.New(t)
	const others = "containers are the daemon's: what reads their output does not hold them"
	const silent = "a daemon that hears of the end of a container before it hears why never says why"
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
		p := newDocked(t, daemon, "docker-"+slice)
		return &drivertest.Harness{
			New: func(testing.TB) driver.Driver {
				d := p.agent()
				p.says(driver.Healthy)
				return d
			},
			Holder: func(t testing.TB, h driver.TaskHandle) int { return logReader(t, h).ShimPID },
			Leftovers: func(t testing.TB) []string {
				held := sockets(t, filepath.Join(p.dir, "shim"))
				return slices.Concat(daemon.Containers(), cgroupsOf(t, p.slice), held, mounts(t, p.dir))
			},
			Adjust: func(name string, cfg *driver.TaskConfig) {
				inBusybox(cfg)
				switch name {
				case "stop with grace": // the kernel keeps signals from a first process that does not ask for them
					cfg.Config["init"] = true
				case "usage": // the shell of the image becomes the last command
					args, _ := cfg.Config["args"].([]any)
					args[1] = args[1].(string) + "; true"
				case "another user": // who it is, says the image; the daemon sets HOME alone
					cfg.Env["USER"] = "nobody"
				}
			},
			Takes:    []string{"config.command"}, // the image may have one
			SizeLags: true,
			Except: map[string]string{
				"its holder is killed":                         others,
				"its holder is killed while no agent is there": others,
				"out of memory":                                silent,
			},
		}
	})
}
