package shim_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/port/driver/docker/spec"
	"berth/internal/testkit/dockerd"
	"berth/internal/testkit/dockerd/between"
)

// Given a daemon that has lost what it knew of a container whose process lives, when the task is watched, then it has
// ended only when no process of it lives; so it is when it is looked for by a new run of the agent, or stopped.
func TestAContainerThatItsDaemonForgotEndsBeforeItIsSaidTo(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"watched", "found again", "stopped"} {
		t.Run(how, func(t *testing.T) {
			p := newDocked(t, dockerd.New(t), "docker-forgot-"+how[:3]+slice)
			d := p.agent()
			p.says(driver.Healthy)
			cfg := p.config("web")
			task := p.start(d, cfg)
			h := task.Handle()
			p.daemon.Signal(unix.SIGKILL)
			if err := os.RemoveAll(filepath.Join(p.daemon.Dir, "root/containers")); err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(h.PID, 0); err != nil {
				t.Fatalf("its process has ended with the daemon: %v", err)
			}
			p.daemon.Start()
			switch how {
			case "watched":
				if r, err := task.Wait(t.Context()); err != nil || !r.Unknown {
					t.Errorf("it ended with %+v, %v", r, err)
				}
			case "found again":
				if _, err := p.agent().Recover(t.Context(), h); !fault.Has(err, fault.NotFound) {
					t.Errorf("it was found: %v", err)
				}
			case "stopped":
				p.says(driver.Healthy)
				if err := task.Stop(t.Context(), "", 0); err != nil {
					t.Error(err)
				}
			}
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(h.PID) + "/stat")
			gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) // before it was opened, or since
			if !gone && !exits(t, string(stat)) {
				t.Errorf("its process lives: %s, %v", stat, err)
			}
			if err := task.Stop(t.Context(), "", 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// exits tells of a process, by its stat of proc(5), whether it is a zombie or at the end of its exit. A process leaves
// its cgroup after it has given up its memory, its files and its namespaces: for a moment it is seen to run all the
// same.
func exits(t *testing.T, stat string) bool {
	t.Helper()
	const exiting = 0x4 // PF_EXITING of the kernel
	_, after, _ := strings.Cut(stat, ") ")
	fields := strings.Fields(after)
	if len(fields) < 7 {
		t.Fatalf("the stat of a process is %q", stat)
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return fields[0] == "Z" || flags&exiting != 0
}

// Given a container of which the kernel kills one process for the memory limit, when it goes on and is killed by its
// stop, then that is how it ended.
func TestAKillInAContainerThatGoesOnIsNotItsEnd(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-child-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.attacker("web", "tail /dev/zero; echo on; while true; do sleep 0.05; done")
	cfg.Resources.MemoryMB = 16
	task := p.start(d, cfg)
	p.logged(cfg, "on\n")
	if n := task.(driver.OOMCounter).OOMKills(); n != 1 {
		t.Errorf("%d kills are counted", n)
	}
	ended := make(chan driver.ExitResult, 1)
	g, gctx := lifecycle.NewGroup(t.Context())
	g.Go("wait", func() error {
		r, err := task.Wait(gctx)
		ended <- r
		return err
	})
	if err := task.Stop(t.Context(), "", time.Millisecond); err != nil {
		t.Error(err)
	}
	if got := <-ended; got.OOMKilled || got.ExitCode != 137 || got.Signal != 9 {
		t.Errorf("it ended with %+v", got)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	p.over(task)
}

// Given a container that somebody paused, then a signal does not say that it has ended, and its stop ends it.
func TestAPausedContainerIsStopped(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-paused-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.config("web")
	task := p.start(d, cfg)
	p.logged(cfg, "begun\n")
	raw(t, p.daemon, "POST", "/containers/web-"+string(cfg.Alloc)+"/pause", "")
	_, err := task.Exec(t.Context(), driver.ExecRequest{Command: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), "paused") {
		t.Errorf("a command: %v", err)
	}
	if err := task.Signal(t.Context(), "SIGHUP"); fault.Has(err, fault.NotFound) {
		t.Errorf("a signal: %v", err)
	}
	if err := task.Stop(t.Context(), "", time.Second); err != nil {
		t.Error(err)
	}
	p.over(task)
}

// Given an image whose list of users is elsewhere, and a link leads there, then its users are known.
func TestUsersOfAnImageWithLinks(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-linked-"+slice)
	text := "image:x:4242:4243::/:/bin/sh\n"
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	archive, err := dockerd.Archive(dockerd.File{Name: "bin/", Mode: 0o755},
		dockerd.File{Name: "bin/busybox", Text: string(busybox), Mode: 0o755},
		dockerd.File{Name: "bin/sh", Link: "busybox", Mode: 0o777}, dockerd.File{Name: "etc/", Mode: 0o755},
		dockerd.File{Name: "usr/", Mode: 0o755}, dockerd.File{Name: "usr/passwd", Text: text, Mode: 0o644},
		dockerd.File{Name: "etc/passwd", Link: "../usr/passwd", Mode: 0o777})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.daemon.Import(t.Context(), "linked", "1", strings.NewReader(string(archive))); err != nil {
		t.Fatal(err)
	}
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.attacker("web", "busybox id -u")
	cfg.User, cfg.Config["image"] = "image", "linked:1"
	task := p.start(d, cfg)
	p.logged(cfg, "4242\n")
	p.over(task)
}

// Given a job that has nothing kept of its output by the daemon, then it runs and ends like another.
func TestAContainerWithoutOutput(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-silent-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.attacker("web", "echo unheard; exit 4")
	cfg.Config["logging"] = []any{map[string]any{"type": "none"}}
	task := p.start(d, cfg)
	if r, err := task.Wait(t.Context()); err != nil || r.ExitCode != 4 {
		t.Errorf("it ended with %+v, %v", r, err)
	}
	p.over(task)
}

// Given an agent that dies before or after any of the calls that change something when a container starts, then the
// next one finds no more than one container of the task, starts it or takes it up, and leaves nothing when it is
// aborted.
func TestAnAgentThatDiesInAnyCallOfAStart(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-dies-"+slice)
	at := filepath.Join(t.TempDir(), "netns")
	namespace(t, at)
	var calls, die atomic.Int64
	var mu sync.Mutex
	kill := func() {}
	tap := between.New(t, p.daemon.Socket(), func(c between.Call) {
		if strings.Contains(c.Path, "/containers/") && c.Method != "GET" && calls.Add(1) == die.Load() {
			mu.Lock()
			defer mu.Unlock()
			kill()
		}
	})
	tap.Outlive()
	agent := func() *docker.Driver {
		d := p.agent(func(c *docker.Config) { c.Socket, c.Program = tap.Socket(), program })
		p.says(driver.Healthy)
		return d
	}
	for n := int64(1); ; n++ {
		d := agent()
		cfg := p.config("web")
		cfg.Network = &driver.Network{Namespace: at, Hostname: "inner"}
		ctx, cancel := context.WithCancel(t.Context())
		mu.Lock()
		kill = cancel
		mu.Unlock()
		calls.Store(0)
		die.Store(n)
		task, err := d.Start(ctx, cfg)
		died := ctx.Err() != nil
		die.Store(0)
		cancel()
		tap.Rest() // what it asked for last may be done after its end, and before the next agent begins
		d = agent()
		if err != nil && n%2 == 0 {
			if task, err = d.Start(t.Context(), cfg); err != nil {
				t.Errorf("call %d: the next agent: %v", n, err)
			} else if all := p.daemon.Containers(); len(all) != 1 {
				t.Errorf("call %d: there are %q", n, all)
			}
		}
		if err == nil {
			p.over(task)
		} else {
			if err := d.Abort(t.Context(), cfg.Alloc, cfg.Task, cfg.Attempt); err != nil {
				t.Errorf("call %d: %v", n, err)
			}
			left := slices.Concat(p.daemon.Containers(), sockets(t, filepath.Join(p.dir, "shim")), mounts(t, p.dir))
			if len(left) > 0 {
				t.Errorf("call %d: left behind: %v", n, left)
			}
		}
		if !died {
			t.Logf("a start has %d moments", n-1)
			break
		}
	}
}

// Given a daemon that is killed or frozen while a container starts, then the start is not over before nothing of it is
// left, also of a container that runs, and the task waits as for a daemon that is not there; the next start succeeds.
func TestAStartWhoseDaemonIsLostLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-lost-"+slice)
	lost := make(chan struct{})
	var at atomic.Pointer[between.Call]
	var with unix.Signal
	tap := between.New(t, p.daemon.Socket(), func(c between.Call) {
		want := at.Load()
		if want == nil || c.Before != want.Before || !strings.HasSuffix(c.Path, want.Path) {
			return
		}
		at.Store(nil)
		p.daemon.Signal(with)
		close(lost)
		if with == unix.SIGSTOP {
			<-t.Context().Done() // nothing of the answer comes
		}
	})
	d := p.agent(func(c *docker.Config) { c.Socket, c.PingEvery = tap.Socket(), time.Second })
	p.says(driver.Healthy)
	for _, k := range []struct {
		path   string
		before bool
		signal unix.Signal
	}{
		{"/containers/create", true, unix.SIGKILL},
		{"/containers/create", false, unix.SIGKILL},
		{"/start", true, unix.SIGKILL},
		{"/start", false, unix.SIGKILL},
		{"/start", false, unix.SIGSTOP},
	} {
		for len(p.fps) > 0 { // what was said of the daemon before
			<-p.fps
		}
		cfg := p.config("web")
		lost, with = make(chan struct{}), k.signal
		at.Store(&between.Call{Path: k.path, Before: k.before})
		failed := make(chan error, 1)
		g, gctx := lifecycle.NewGroup(t.Context())
		g.Go("start", func() error {
			_, err := d.Start(gctx, cfg)
			failed <- err
			return nil
		})
		<-lost
		if k.signal == unix.SIGSTOP {
			p.says(driver.Unhealthy)
			p.daemon.Signal(unix.SIGCONT)
		} else {
			p.daemon.Start()
		}
		select {
		case err := <-failed:
			if !fault.Has(err, fault.NotReady) {
				t.Errorf("%+v: the start: %v", k, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%+v: the start hangs", k)
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if all := p.daemon.Containers(); len(all) > 0 {
			t.Errorf("%+v: there are %q", k, all)
		}
		cfg.Attempt++
		p.over(p.start(d, cfg))
	}
}

// Given a daemon that was still creating a container for an agent that has died, so that its name is taken while no
// answer has it, when the next agent starts the task, then that is waited for and removed, and the task runs.
func TestANameThatADeadAgentHasTakenIsFreed(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-taken-"+slice)
	cfg := p.config("web")
	name := "web-" + string(cfg.Alloc)
	var begun atomic.Pointer[string] // the container of the agent that has died
	var looked atomic.Int64
	tap := between.New(t, p.daemon.Socket(), func(c between.Call) {
		switch {
		case c.Before && begun.Load() == nil && strings.HasSuffix(c.Path, "/containers/create"):
			id, err := p.daemon.Create(t.Context(), name, &dockerapi.Create{
				Image:  dockerd.Image,
				Labels: map[string]string{spec.LabelAlloc: string(cfg.Alloc)},
			})
			if err != nil {
				t.Error(err)
			}
			begun.Store(&id)
		case begun.Load() != nil && strings.HasSuffix(c.Path, "/containers/"+name+"/json") && looked.Load() < 4:
			as := name
			if looked.Add(1)%2 == 1 {
				as = "not-there-yet"
			}
			raw(t, p.daemon, "POST", "/containers/"+*begun.Load()+"/rename?name="+as, "")
		}
	})
	d := p.agent(func(c *docker.Config) { c.Socket = tap.Socket() })
	p.says(driver.Healthy)
	p.over(p.start(d, cfg))
	if looked.Load() != 4 {
		t.Errorf("it was looked for %d times", looked.Load()/2)
	}
}
