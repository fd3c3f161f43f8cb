package shim_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/testkit/dockerd"
)

// config is a task that prints, waits for a file, prints again and ends.
func (p *docked) config(name string) *driver.TaskConfig {
	p.t.Helper()
	cfg := drivertest.Config(p.t, filepath.Join(p.dir, "alloc"), ids.Alloc(ids.New()), name,
		`echo begun; while ! test -e local/go; do sleep 0.02; done; echo over; exit 6`)
	inBusybox(cfg)
	return cfg
}

func (p *docked) start(d *docker.Driver, cfg *driver.TaskConfig) driver.Task {
	p.t.Helper()
	task, err := d.Start(p.t.Context(), cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return task
}

func (p *docked) logged(cfg *driver.TaskConfig, want string) {
	p.t.Helper()
	path := filepath.Join(cfg.Logs.Dir, cfg.Task+".stdout.0")
	var text []byte
	for range 1000 {
		if text, _ = os.ReadFile(path); string(text) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Errorf("the log holds %q, not %q", text, want)
}

func (p *docked) let(cfg *driver.TaskConfig) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(cfg.TaskDir, "local/go"), nil, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// over ends a task, and sees that nothing is left.
func (p *docked) over(task driver.Task) {
	p.t.Helper()
	if err := task.Stop(p.t.Context(), "", 0); err != nil {
		p.t.Error(err)
	}
	held := slices.Concat(p.daemon.Containers(), cgroupsOf(p.t, p.slice), sockets(p.t, filepath.Join(p.dir, "shim")),
		mounts(p.t, p.dir))
	if len(held) > 0 {
		p.t.Errorf("left behind: %v", held)
	}
}

// Given a task in a container, when the daemon is killed and started again, and then the daemon and the agent at once,
// then the task goes on as the same process, its output has no gap and nothing twice, and its end is known.
func TestAContainerOutlivesTheDaemonAndTheAgent(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-life-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.config("web")
	task := p.start(d, cfg)
	p.logged(cfg, "begun\n")
	pid := task.Handle().PID
	exit := make(chan driver.ExitResult, 1)
	g, gctx := lifecycle.NewGroup(t.Context())
	g.Go("wait", func() error {
		r, err := task.Wait(gctx)
		exit <- r
		return err
	})
	p.daemon.Signal(unix.SIGKILL)
	if f := p.says(driver.Unhealthy); !strings.Contains(f.Description, p.daemon.Socket()) {
		t.Errorf("a daemon that is gone: %+v", f)
	}
	if _, err := d.Start(t.Context(), p.config("other")); !fault.Has(err, fault.NotReady) {
		t.Errorf("a start without a daemon: %v", err)
	}
	p.daemon.Start()
	p.says(driver.Healthy)
	var out bytes.Buffer
	req := driver.ExecRequest{Command: []string{"echo", "inside"}, Stdout: &out}
	if r, err := task.Exec(t.Context(), req); err != nil || r.ExitCode != 0 || out.String() != "inside\n" {
		t.Errorf("a command after the daemon's restart: %+v, %v, %q", r, err, out.String())
	}
	select {
	case r := <-exit:
		t.Fatalf("the task ended with the daemon: %+v", r)
	default:
	}
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	p.stop()
	p.daemon.Signal(unix.SIGKILL)
	p.daemon.Start()
	d = p.agent()
	again, err := d.Recover(t.Context(), task.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if now := p.daemon.PIDOf("web-" + string(cfg.Alloc)); now != pid {
		t.Errorf("the task is process %d, and was %d", now, pid)
	}
	p.let(cfg)
	if r, err := again.Wait(t.Context()); err != nil || r.ExitCode != 6 || r.Unknown {
		t.Errorf("the end: %+v, %v", r, err)
	}
	p.logged(cfg, "begun\nover\n")
	p.over(again)
}

// Given a task in a container, when what reads its output is killed with its shim, then the task goes on, and the next
// run of the agent has its output read again.
func TestTheOutputOfAContainerIsReadAgain(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-output-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.config("web")
	task := p.start(d, cfg)
	p.logged(cfg, "begun\n")
	if err := unix.Kill(logReader(t, task.Handle()).ShimPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d = p.agent()
	p.says(driver.Healthy)
	again, err := d.Recover(t.Context(), task.Handle())
	if err != nil {
		t.Fatal(err)
	}
	p.let(cfg)
	if r, err := again.Wait(t.Context()); err != nil || r.ExitCode != 6 {
		t.Errorf("the end: %+v, %v", r, err)
	}
	p.logged(cfg, "begun\nover\n")
	p.over(again)
}

// Given a node whose record of a task was lost, when the task is found by what reads its output, then its container is
// found by its name and goes on.
func TestAContainerWhoseRecordIsLostIsFound(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-lost-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.config("web")
	task := p.start(d, cfg)
	h := task.Handle()
	reader := logReader(t, h)
	h.State = []byte(fmt.Sprintf(`{"Socket":%q,"ShimPID":%d,"ShimStart":%d,"Name":%q,"Task":%q,"Attempt":1,"PID":%d,`+
		`"Cgroup":%q,"Boot":%q}`, reader.Socket, reader.ShimPID, reader.ShimStart, reader.Name, reader.Task, reader.PID,
		reader.Cgroup, reader.Boot))
	again, err := p.agent().Recover(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	p.let(cfg)
	if r, err := again.Wait(t.Context()); err != nil || r.ExitCode != 6 {
		t.Errorf("the end: %+v, %v", r, err)
	}
	p.over(again)
}

// TestTheContainersOfAnAllocEndWithoutARecord: given a container of which nothing is recorded, then the driver names
// its task, and ends it.
func TestTheContainersOfAnAllocEndWithoutARecord(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-drop-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.config("web")
	p.start(d, cfg)
	again := p.agent()
	until(t, "its task is named", func() bool {
		tasks, err := again.Keeps(cfg.Alloc)
		return err == nil && slices.Equal(tasks, []string{cfg.Task})
	})
	if err := again.Drop(t.Context(), cfg.Alloc); err != nil {
		t.Fatal(err)
	}
	if tasks, err := again.Keeps(cfg.Alloc); err != nil || len(tasks) > 0 {
		t.Errorf("after their end there are %q, %v", tasks, err)
	}
}

// namespace makes a network namespace that is held at a path.
func namespace(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g, _ := lifecycle.NewGroup(t.Context())
	g.Go("namespace", func() error {
		runtime.LockOSThread() // and the thread ends with it
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// Given an alloc with a network of its own, when tasks of it are started in containers, then they are in that network,
// with its name and files, and nothing but them is left of how they came there; also after the daemon was killed.
func TestContainersJoinTheNetworkOfTheirAlloc(t *testing.T) {
	t.Parallel()
	p := newDocked(t, dockerd.New(t), "docker-net-"+slice)
	d := p.agent(func(c *docker.Config) { c.Program = program })
	p.says(driver.Healthy)
	dir := t.TempDir()
	at := filepath.Join(dir, "netns")
	namespace(t, at)
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 inner\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := p.config("web")
	cfg.Network = &driver.Network{Namespace: at, Hostname: "inner",
		Files: []driver.Mount{{Source: hosts, Target: "/etc/hosts", ReadOnly: true}}}
	task := p.start(d, cfg)
	want, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", task.Handle().PID)); err != nil || !os.SameFile(is, want) {
		t.Errorf("the container is in another network: %v", err)
	}
	if all := p.daemon.Containers(); len(all) != 1 {
		t.Errorf("there are the containers %q", all)
	}
	p.daemon.Signal(unix.SIGKILL)
	p.daemon.Start()
	p.says(driver.Healthy)
	var out bytes.Buffer
	const look = "hostname; cat /etc/hosts; ls /sys/class/net"
	req := driver.ExecRequest{Command: []string{"sh", "-c", look}, Stdout: &out}
	if _, err := task.Exec(t.Context(), req); err != nil || out.String() != "inner\n127.0.0.1 inner\nlo\n" {
		t.Errorf("it sees %q: %v", out.String(), err)
	}
	p.over(task)
}
