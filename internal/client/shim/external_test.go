package shim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/allochooks"
	"berth/internal/client/hook"
	"berth/internal/client/taskhooks"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/model/job"
	"berth/internal/port/driver"
	"berth/internal/port/driver/external"
	"berth/internal/port/driver/launched"
	"berth/internal/port/hostfs"
	"berth/internal/port/pluginhost"
)

// example builds the driver that authors of others start from; it is a module of its own.
var example = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "drivers")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "hello-driver"), ".")
	cmd.Dir = "../../../examples/driver"
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fault.New(fault.Internal, "build", "the example", string(out))
	}
	return dir, nil
})

// plugged is the example driver, as the agents of one node use it one after the other.
type plugged struct {
	t     testing.TB
	dir   string // of this node
	slice string
	fps   chan driver.Fingerprint

	mu  sync.Mutex
	end func() // of the agent that runs
}

func newPlugged(t testing.TB, slice string) *plugged {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "plug")
	if err != nil {
		t.Fatal(err)
	}
	p := &plugged{t: t, dir: dir, slice: slice}
	t.Cleanup(func() {
		p.stop()
		if r := p.recorded(); r.PID > 0 {
			_ = unix.Kill(r.PID, unix.SIGKILL) // it may have ended
		}
		if err := launcherIn(t, filepath.Join(dir, "shim"), slice).EndAll(short(t)); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *plugged) stop() {
	p.mu.Lock()
	end := p.end
	p.end = nil
	p.mu.Unlock()
	if end != nil {
		end()
	}
}

// recorded is the plugin's process, as the agent wrote it down.
func (p *plugged) recorded() (r struct{ PID int }) {
	text, err := os.ReadFile(filepath.Join(p.dir, "state", "process.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil && !os.IsNotExist(err) {
		p.t.Error(err)
	}
	return r
}

// agent begins a new run of the agent.
func (p *plugged) agent(change ...func(*external.Config)) *external.Driver {
	p.t.Helper()
	p.stop()
	programs, err := example()
	if err != nil {
		p.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	dirs := hostfs.NewDirectories(log)
	cfg := external.Config{
		Config: pluginhost.Config{
			Block: "hello-driver",
			Path:  filepath.Join(programs, "hello-driver"),
			Dir:   filepath.Join(p.dir, "state"),
			Dirs:  dirs,
			Log:   log,
		},
		Launcher: launcherIn(p.t, filepath.Join(p.dir, "shim"), p.slice),
	}
	for _, c := range change {
		c(&cfg)
	}
	d := external.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	p.fps = make(chan driver.Fingerprint, 100)
	fps := p.fps
	g.Go("directories", func() error { return dirs.Run(gctx) })
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

// healthy waits until the plugin says that it is.
func (p *plugged) healthy() driver.Fingerprint {
	p.t.Helper()
	for {
		select {
		case f := <-p.fps:
			if f.Health == driver.Healthy {
				return f
			}
		case <-time.After(time.Minute):
			p.t.Fatal("the plugin is not healthy after a minute")
		}
	}
}

func (p *plugged) leftovers(t testing.TB) []string {
	outputs, err := filepath.Glob(filepath.Join(p.dir, "state", "output", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(outputs, cgroupsOf(t, p.slice), sockets(t, filepath.Join(p.dir, "shim")), mounts(t, p.dir))
}

// Given the example of a driver plugin, written with go-plugin alone, when the suite of all drivers is run on it by way
// of the protocol, then it passes, but for what it does not claim.
func TestTheExampleOfADriverConforms(t *testing.T) {
	t.Parallel()
	const itself = "the example starts tasks as children of its own: "
	except := map[string]string{
		"stop kills daemonised grandchildren":          itself + "it does not find those that left their group",
		"an attempt that is started twice runs once":   "a plugin cannot say what it has: the first is ended",
		"its holder is killed":                         itself + "they go on when it dies",
		"its holder is killed while no agent is there": itself + "they go on when it dies",
		"exec with a terminal":                         "the example has none",
		"exec of a command that cannot run":            "plugins answer an error",
		"exec that is given up":                        itself + "it does not find what a command started",
		"out of memory":                                "the example limits nothing",
		"small memory":                                 "the example limits nothing",
		"a command that is not found":                  "the example leaves the search to Go",
		"usage":                                        "the example measures one process",
		"another user":                                 "the example sets no home, and takes no numbers",
	}
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
		p := newPlugged(t, "external-"+slice)
		return &drivertest.Harness{
			New: func(testing.TB) driver.Driver {
				d := p.agent()
				p.healthy()
				return d
			},
			Holder:    func(testing.TB, driver.TaskHandle) int { return p.recorded().PID },
			Leftovers: p.leftovers,
			Except:    except,

			OutputLags: true,
		}
	})
}

// Given the example of a driver plugin, which says that it mounts nothing, when a job's volume is to be mounted into a
// task of it, then the hooks of alloc and task refuse that with the way out, by what the plugin itself said.
func TestAVolumeForAPluginThatCannotMountIsRefusedOnTheNode(t *testing.T) {
	t.Parallel()
	p := newPlugged(t, "mounts-"+slice)
	d := p.agent()
	p.healthy()
	web := &job.Task{Name: "web", Driver: "hello", VolumeMounts: []*job.VolumeMount{{Volume: "db", Destination: "/db"}}}
	group := &job.TaskGroup{
		Name:    "group",
		Tasks:   []*job.Task{web},
		Volumes: map[string]*job.VolumeRequest{"db": {Name: "db", Type: job.VolumeTypeHost, Source: "db"}},
	}
	shop := &job.Job{ID: "shop"}
	ofAlloc := allochooks.CheckMountSupport(&hook.Alloc{
		Job:    shop,
		Group:  group,
		Driver: func(string) (driver.Info, error) { return d.Info(), nil },
	})
	ofTask := (&taskhooks.Volume{}).Prestart(t.Context(),
		&hook.Task{Job: shop, Group: group, Task: web, DriverInfo: d.Info()})
	for who, err := range map[string]error{"alloc": ofAlloc, "task": ofTask} {
		if !fault.Has(err, fault.Invalid) {
			t.Errorf("the hook of the %s: %v", who, err)
			continue
		}
		for _, word := range []string{`job "shop"`, `task "web"`, `driver "hello"`, `volume "db"`,
			"use a driver that can", "volume_mount"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("the hook of the %s: %q does not say %q", who, err, word)
			}
		}
	}
}

// task starts one that prints and waits.
func (p *plugged) task(d *external.Driver, attempt int) (*driver.TaskConfig, driver.Task) {
	p.t.Helper()
	cfg := drivertest.Config(p.t, filepath.Join(p.dir, "alloc"), ids.Alloc(ids.New()), "web",
		`echo begun; while ! test -e local/go; do sleep 0.02; done; echo over; exit 6`)
	cfg.Attempt = attempt
	task, err := d.Start(p.t.Context(), cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return cfg, task
}

func (p *plugged) logged(cfg *driver.TaskConfig, want string) {
	p.t.Helper()
	path := filepath.Join(cfg.Logs.Dir, "web.stdout.0")
	for range 500 {
		if text, err := os.ReadFile(path); err == nil && string(text) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	text, err := os.ReadFile(path)
	p.t.Errorf("the log holds %q, not %q: %v", text, want, err)
}

// Given a task of a plugin, when the plugin is killed, then another process of it is started and takes the task up,
// which goes on: it is the same process, and what it writes is kept.
func TestAPluginThatDiesTakesItsTasksUpAgain(t *testing.T) {
	t.Parallel()
	p := newPlugged(t, "dies-"+slice)
	d := p.agent()
	p.healthy()
	cfg, task := p.task(d, 1)
	p.logged(cfg, "begun\n")
	exit := make(chan driver.ExitResult, 1)
	g, gctx := lifecycle.NewGroup(t.Context())
	g.Go("wait", func() error {
		r, err := task.Wait(gctx)
		exit <- r
		return err
	})
	first := p.recorded().PID
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.healthy()
	if now := p.recorded().PID; now == first || now == 0 {
		t.Errorf("the plugin is process %d, and was %d", now, first)
	}
	if r, err := task.Exec(t.Context(), driver.ExecRequest{Command: []string{"true"}}); err != nil || r.ExitCode != 0 {
		t.Errorf("a command in the task: %+v, %v", r, err)
	}
	if err := os.WriteFile(filepath.Join(cfg.TaskDir, "local/go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// A driver that is started again is not its tasks' parent any more, and says that it does not know how they ended.
	if r := <-exit; !r.Unknown || !strings.Contains(r.Err, "how is not known") {
		t.Errorf("the end: %+v", r)
	}
	p.logged(cfg, "begun\nover\n")
	if err := task.Stop(t.Context(), "", 0); err != nil {
		t.Error(err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if left := p.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Given a task of a plugin, when the agent ends and another begins, then the plugin is the same process, the task runs
// on, and its end is known as if nothing had been.
func TestAPluginAndItsTasksOutliveTheAgent(t *testing.T) {
	t.Parallel()
	p := newPlugged(t, "outlives-"+slice)
	p.healthyAgent()
	d := p.agent()
	p.healthy()
	cfg, task := p.task(d, 1)
	first := p.recorded().PID
	d = p.agent()
	again, err := d.Recover(t.Context(), task.Handle()) // it waits until the plugin is connected
	if err != nil {
		t.Fatal(err)
	}
	if now := p.recorded().PID; now != first {
		t.Errorf("the plugin is process %d, and was %d", now, first)
	}
	if err := os.WriteFile(filepath.Join(cfg.TaskDir, "local/go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := again.Wait(t.Context()); err != nil || r.ExitCode != 6 || r.Unknown {
		t.Errorf("the end: %+v, %v", r, err)
	}
	if err := again.Stop(t.Context(), "", 0); err != nil {
		t.Error(err)
	}
	p.logged(cfg, "begun\nover\n")
	p.stop()
	if r := p.recorded(); r.PID != 0 {
		t.Errorf("a plugin without tasks stays when its agent ends: process %d", r.PID)
	}
}

// Given a node that has lost its record of a task, when the task is found by what reads its output alone, then the
// plugin is told to end it: without the plugin's handle nobody could look after it.
func TestATaskOfAPluginWhoseRecordIsLostIsEnded(t *testing.T) {
	t.Parallel()
	p := newPlugged(t, "lost-"+slice)
	d := p.agent()
	p.healthy()
	cfg, task := p.task(d, 1)
	p.logged(cfg, "begun\n")
	var kept struct{ Output driver.ProcessHandle }
	if err := json.Unmarshal(task.Handle().State, &kept); err != nil {
		t.Fatal(err)
	}
	found, err := launched.Handle("hello", cfg.Alloc, kept.Output) // as of any process that a shim still holds
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.agent().Recover(t.Context(), found); !fault.Has(err, fault.NotFound) {
		t.Errorf("recover: %v", err)
	}
	if left := p.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	p.stop() // a plugin that holds nothing ends with its agent
	if r := p.recorded(); r.PID != 0 {
		t.Errorf("the plugin still holds the task: process %d", r.PID)
	}
}

func (p *plugged) healthyAgent() {
	p.agent()
	p.healthy()
}

// Given an agent that died between the start of a task and its record, when the task is started again, then the first
// one is ended before.
func TestATaskOfAPluginRunsOnce(t *testing.T) {
	t.Parallel()
	p := newPlugged(t, "once-"+slice)
	d := p.agent()
	p.healthy()
	sleep := fmt.Sprintf("sleep 86399.%d", os.Getpid())
	for attempt := 1; attempt <= 2; attempt++ {
		cfg := drivertest.Config(t, filepath.Join(p.dir, "alloc"), "5f3c1a52-0000-4000-8000-000000000001", "web",
			"exec "+sleep)
		cfg.Attempt = attempt
		task, err := d.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command("pgrep", "-f", sleep).Output() // no match is an exit of 1
		if n := len(strings.Fields(string(out))); n != 1 {
			t.Errorf("attempt %d: %d of them run", attempt, n)
		}
		if attempt == 2 {
			if err := task.Stop(t.Context(), "SIGKILL", 0); err != nil {
				t.Error(err)
			}
		}
		d = p.agent()
		p.healthy()
	}
}
