package external_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/port/driver"
	"berth/internal/port/driver/external"
	"berth/internal/port/hostfs"
	"berth/internal/port/pluginhost"
	"berth/internal/testkit/playedplugin"
)

// node is where agents run one after the other, each with the same plugin.
type node struct {
	t   *testing.T
	dir string
	cfg func(*external.Config)
	end func() // of the agent that runs
	fps chan driver.Fingerprint
}

// newNode is a node whose plugin behaves as its mode says.
func newNode(t *testing.T, mode string, cfg ...func(*external.Config)) *node {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "runs")
	must(t, err)
	n := &node{t: t, dir: dir, cfg: func(c *external.Config) {
		c.Path = "/bin/sh"
		c.Args = playedplugin.Args(t, mode)
		for _, change := range cfg {
			change(c)
		}
	}}
	t.Cleanup(func() {
		n.stop()
		for _, pid := range n.plugins() {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
		n.eventually("the plugins to be gone", func() bool { return len(n.plugins()) == 0 })
		must(t, os.RemoveAll(dir))
	})
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) eventually(what string, ok func() bool) {
	n.t.Helper()
	for range 1500 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	n.t.Fatalf("waited for %s", what)
}

// plugins are the processes that have this node's directory in their environment.
func (n *node) plugins() (pids []int) {
	for _, path := range of(n.t, n.dir) {
		pid, err := strconv.Atoi(filepath.Base(path))
		must(n.t, err)
		if text, err := os.ReadFile(filepath.Join(path, "stat")); err != nil || strings.Contains(string(text), ") Z ") {
			continue
		}
		pids = append(pids, pid)
	}
	return pids
}

func (n *node) stop() {
	if n.end != nil {
		n.end()
		n.end = nil
	}
}

// agent begins another run of the agent.
func (n *node) agent(change ...func(*external.Config)) *external.Driver {
	n.t.Helper()
	n.stop()
	log := slog.New(slog.DiscardHandler)
	cfg := external.Config{
		Config: pluginhost.Config{
			Block: "bad-driver",
			Dir:   filepath.Join(n.dir, "state"),
			Dirs:  hostfs.NewDirectories(log),
			Log:   log,
		},
		Launcher: noLauncher{},
	}
	n.cfg(&cfg)
	for _, c := range change {
		c(&cfg)
	}
	d := external.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	fps := make(chan driver.Fingerprint, 1000)
	n.fps = fps
	g.Go("directories", func() error { return cfg.Dirs.Run(gctx) })
	g.Go("driver", func() error {
		return d.Follow(gctx, func(f driver.Fingerprint) {
			select {
			case fps <- f:
			default: // nobody reads so many
			}
		})
	})
	n.end = func() {
		cancel()
		if err := g.Wait(); err != nil {
			n.t.Error(err)
		}
	}
	return d
}

// says waits until the plugin is said to be so.
func (n *node) says(h driver.Health, text string) driver.Fingerprint {
	n.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case f := <-n.fps:
			if f.Health == h && strings.Contains(f.Description, text) {
				return f
			}
		case <-late:
			n.t.Fatalf("it is not said to be %s: %s", h, text)
		}
	}
}

// holds has the plugin look as if it had a task.
func (n *node) holds() {
	n.t.Helper()
	must(n.t, os.MkdirAll(filepath.Join(n.dir, "state", "output"), 0o700))
	must(n.t, os.WriteFile(filepath.Join(n.dir, "state", "output", "alloc.dA.1.stdout"), nil, 0o600))
}

func (n *node) one() int {
	n.t.Helper()
	n.eventually("one process of the plugin", func() bool { return len(n.plugins()) == 1 })
	return n.plugins()[0]
}

func taskOf(dir string, id ids.Alloc, attempt int) *driver.TaskConfig {
	return &driver.TaskConfig{
		Alloc:    id,
		Task:     "t",
		Attempt:  attempt,
		AllocDir: filepath.Join(dir, "alloc"),
		TaskDir:  dir,
	}
}

// Given a plugin whose process stands still, when it is asked whether it answers, then it is said to be unhealthy with
// the reason and the way out, no task is started with it, and nobody ends it: once it goes on, it is as it was.
func TestAPluginThatStandsStillIsSaidToAndHeals(t *testing.T) {
	t.Parallel()
	n := newNode(t, "well", func(c *external.Config) { c.ProbePeriod = 300 * time.Millisecond })
	d := n.agent()
	n.says(driver.Healthy, "as ever")
	pid := n.one()
	must(t, unix.Kill(pid, unix.SIGSTOP))
	n.says(driver.Unhealthy, fmt.Sprintf("process %d does not answer", pid))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := d.Start(ctx, taskOf(t.TempDir(), ids.Alloc(ids.New()), 1))
	if !fault.Has(err, fault.NotReady) || !strings.Contains(err.Error(), "kill -KILL") {
		t.Errorf("a task: %v", err)
	}
	must(t, unix.Kill(pid, unix.SIGCONT))
	n.says(driver.Healthy, "as ever")
	if now := n.one(); now != pid {
		t.Errorf("it is process %d, and was %d", now, pid)
	}
}

// Given a plugin that holds a task, when the record of its process is lost, or all of its directory, then the next
// agent connects with it, or ends it: there is one, and not two that each hold half of what there is.
func TestAPluginWhoseRecordIsLostIsFound(t *testing.T) {
	t.Parallel()
	for what, lost := range map[string]string{"its record": "state/process.json", "its directory": "state"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "well")
			n.agent()
			n.says(driver.Healthy, "")
			n.holds()
			before := n.one()
			n.stop()
			if now := n.one(); now != before {
				t.Errorf("it ended with its agent, and holds a task")
			}
			must(t, os.RemoveAll(filepath.Join(n.dir, lost)))
			n.agent()
			n.says(driver.Healthy, "")
			if now := n.plugins(); len(now) != 1 || now[0] == before != (what == "its record") {
				t.Errorf("it is process %d, and was %d", now, before)
			}
			if _, err := os.Stat(filepath.Join(n.dir, "state/process.json")); err != nil {
				t.Error(err)
			}
		})
	}
}

// Given a plugin that a script starts as its child, when the script alone is killed, then the plugin is connected with
// or ended before another is started: there is one.
func TestAPluginBehindAScriptIsOne(t *testing.T) {
	t.Parallel()
	n := newNode(t, "well", func(c *external.Config) {
		c.Args[1] = strings.Replace(c.Args[1], "exec ", "", 1) + " & wait"
	})
	n.agent()
	n.says(driver.Healthy, "")
	n.eventually("a script and its program", func() bool { return len(n.plugins()) == 2 })
	script := n.plugins()[0]
	n.holds()
	n.stop()
	must(t, unix.Kill(script, unix.SIGKILL))
	n.one()
	n.agent()
	n.says(driver.Healthy, "")
	if all := n.plugins(); len(all) != 1 {
		t.Errorf("processes: %v", all)
	}
	must(t, os.RemoveAll(filepath.Join(n.dir, "state/output")))
	n.stop()
	n.eventually("it to end with its agent", func() bool { return len(n.plugins()) == 0 })
}

// Given a plugin whose program or arguments have changed, when the next agent begins, then it is started again if it
// holds no task, and goes on as it is otherwise.
func TestAPluginThatIsAnotherProgramIsStartedAgain(t *testing.T) {
	t.Parallel()
	for _, holds := range []bool{false, true} {
		n := newNode(t, "well")
		n.agent()
		n.says(driver.Healthy, "")
		n.holds()
		before := n.one()
		n.stop()
		if !holds {
			must(t, os.RemoveAll(filepath.Join(n.dir, "state/output")))
		}
		n.agent(func(c *external.Config) { c.Args = append(c.Args, "more") })
		n.says(driver.Healthy, "")
		if now := n.one(); now == before != holds {
			t.Errorf("holds %t: it is process %d, and was %d", holds, now, before)
		}
	}
}

// Given an agent whose plugins are to end with it, when it ends, then they do, whatever they hold.
func TestAPluginEndsWithItsAgentIfItIsTo(t *testing.T) {
	t.Parallel()
	n := newNode(t, "well", func(c *external.Config) { c.EndWithAgent = true })
	n.agent()
	n.says(driver.Healthy, "")
	n.holds()
	n.one()
	n.stop()
	if all := n.plugins(); len(all) > 0 {
		t.Errorf("it goes on: %v", all)
	}
}

// Given a plugin that was starting a task, of which it knows nothing before, when its agent dies, then the next one's
// abort returns only when the task can begin no more: the plugin is ended for it.
func TestAStartForAnAgentThatDiedNeverBegins(t *testing.T) {
	t.Parallel()
	n := newNode(t, "slower")
	dir, id := t.TempDir(), ids.Alloc(ids.New())
	d := n.agent()
	n.says(driver.Healthy, "")
	before := n.one()
	ctx, cancel := context.WithCancel(t.Context())
	g, _ := lifecycle.NewGroup(t.Context())
	g.Go("start", func() error {
		if _, err := d.Start(ctx, taskOf(dir, id, 1)); err == nil {
			t.Error("it has started at once")
		}
		return nil
	})
	n.eventually("the plugin to be at work", func() bool {
		_, err := os.Stat(filepath.Join(dir, "begins"))
		return err == nil
	})
	cancel()
	must(t, g.Wait())
	d = n.agent()
	n.says(driver.Healthy, "")
	if now := n.one(); now != before {
		t.Fatalf("the plugin has not outlived the agent: %d, %d", before, now)
	}
	n.eventually("the end of the start", func() bool {
		err := d.Abort(t.Context(), id, "t", 1)
		if err != nil && !fault.Has(err, fault.NotReady) {
			t.Fatal(err)
		}
		return err == nil
	})
	if all := n.plugins(); len(all) > 0 && all[0] == before {
		t.Error("the plugin may still begin it")
	}
	if _, err := os.Stat(filepath.Join(dir, "lives")); !os.IsNotExist(err) {
		t.Errorf("it lives: %v", err)
	}
	if tasks, err := d.Keeps(id); err != nil || len(tasks) > 0 {
		t.Errorf("of the alloc there may be %q, %v", tasks, err)
	}
}

// Given a plugin that ends after it has begun a task and before it says so, when the start is said to have failed, then
// what was begun is gone, for nobody may ask for another: it is found by the pipes to which it writes.
func TestWhatWasBegunWithoutAWordIsEnded(t *testing.T) {
	t.Parallel()
	n := newNode(t, "begins and ends")
	dir, id := t.TempDir(), ids.Alloc(ids.New())
	d := n.agent()
	n.says(driver.Healthy, "")
	if _, err := d.Start(t.Context(), taskOf(dir, id, 1)); !fault.Has(err, fault.NotReady) {
		t.Errorf("the start: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "child"))
	must(t, err)
	child, err := strconv.Atoi(string(text))
	must(t, err)
	t.Cleanup(func() { _ = unix.Kill(child, unix.SIGKILL) }) // it is gone, if all is well
	if err := unix.Kill(child, 0); err == nil {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err == nil &&
			!strings.Contains(string(text), ") Z ") {
			t.Error("what was begun lives")
		}
	}
	if tasks, err := d.Keeps(id); err != nil || len(tasks) > 0 {
		t.Errorf("of the alloc there may be %q, %v", tasks, err)
	}
}

// Given a plugin that answers a start as one does that is gone, when a task is started, then it is believed, and goes
// on: its own word that its daemon is unavailable is no reason to end it.
func TestAPluginThatSaysItIsUnavailableGoesOn(t *testing.T) {
	t.Parallel()
	n := newNode(t, "unavailable")
	id := ids.Alloc(ids.New())
	d := n.agent()
	n.says(driver.Healthy, "")
	before := n.one()
	if _, err := d.Start(t.Context(), taskOf(t.TempDir(), id, 1)); !fault.Has(err, fault.NotReady) {
		t.Errorf("the start: %v", err)
	}
	if tasks, err := d.Keeps(id); err != nil || len(tasks) > 0 {
		t.Errorf("of the alloc there may be %q, %v", tasks, err)
	}
	if now := n.one(); now != before {
		t.Errorf("it is process %d, and was %d", now, before)
	}
}

// Given a plugin that cannot end what it has said a start failed for, when a task is started, then that is not said
// to have failed: it may live. It is said what holds it up, and when the task is stopped the attempt is not forgotten.
func TestAFailedStartThatCannotBeEndedIsKept(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n := newNode(t, "no handle, no end", func(c *external.Config) {
		c.Events = func(e external.Event) {
			if strings.Contains(e.Message, "hands are tied") {
				stop() // somebody reads it, and stops the task
			}
		}
	})
	id := ids.Alloc(ids.New())
	d := n.agent()
	n.says(driver.Healthy, "")
	_, err := d.Start(ctx, taskOf(t.TempDir(), id, 1))
	if err == nil || !strings.Contains(err.Error(), "no handle") || !strings.Contains(err.Error(), "hands are tied") {
		t.Errorf("the start: %v", err)
	}
	if tasks, err := d.Keeps(id); err != nil || len(tasks) != 1 {
		t.Errorf("of the alloc there may be %q, %v", tasks, err)
	}
}

// Given a plugin that is started again and says nothing of how it is from then on, then it is not said to be as its
// predecessor was for long, but that it runs and is mute.
func TestAMutePluginIsSaidToBe(t *testing.T) {
	t.Parallel()
	n := newNode(t, "mute")
	n.agent()
	n.says(driver.Healthy, "as ever")
	must(t, unix.Kill(n.one(), unix.SIGKILL))
	n.says(driver.Unhealthy, "it runs, and has not said")
}

// Given a plugin that says very much, when it is followed, then the file of its words does not grow on, and what it
// says afterwards is heard.
func TestWhatAPluginSaysIsCut(t *testing.T) {
	t.Parallel()
	var lines atomic.Int64
	n := newNode(t, "loud", func(c *external.Config) { c.Log = slog.New(&counting{lines: &lines}) })
	n.agent()
	n.says(driver.Healthy, "")
	n.eventually("the file to be cut", func() bool {
		st, err := os.Stat(filepath.Join(n.dir, "state", "stderr"))
		return err == nil && lines.Load() > 200 && st.Size() < 10<<20
	})
	n.eventually("what it says afterwards", func() bool { return lines.Load() > 1100 })
}

// counting counts lines of a log.
type counting struct {
	slog.Handler
	lines *atomic.Int64
}

func (c *counting) Enabled(context.Context, slog.Level) bool { return true }
func (c *counting) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *counting) Handle(context.Context, slog.Record) error {
	c.lines.Add(1)
	return nil
}

// Given a program that a plugin started for a task, which listens where plugins do, when the plugin is killed and
// started again, then it is still found there, and what is of nobody any more is removed.
func TestTheSocketOfWhatLooksAfterATaskStays(t *testing.T) {
	t.Parallel()
	n := newNode(t, "with a child")
	n.agent()
	n.says(driver.Healthy, "")
	sockets := filepath.Join(n.dir, "state", "run")
	n.eventually("the child", func() bool {
		_, err := os.Stat(filepath.Join(sockets, "plugin-dir", "child"))
		return err == nil
	})
	var plugin int
	n.eventually("the plugin to be recorded", func() bool {
		text, err := os.ReadFile(filepath.Join(n.dir, "state", "process.json"))
		_, after, _ := strings.Cut(string(text), `"PID":`)
		_, scanned := fmt.Sscanf(after, "%d", &plugin)
		return err == nil && scanned == nil
	})
	must(t, unix.Kill(plugin, unix.SIGKILL))
	n.says(driver.Unhealthy, "")
	n.says(driver.Healthy, "")
	if _, err := os.Stat(filepath.Join(sockets, "plugin-dir", "child")); err != nil {
		t.Error(err)
	}
	if all := n.plugins(); len(all) != 2 {
		t.Errorf("processes: %v", all)
	}
}

// Given a plugin that makes networks, when it is asked for one and to end it, then it gets back what it gave, whole; an
// answer without a namespace is refused, and what it does not know is gone. One that makes none says so.
func TestAPluginMakesNetworks(t *testing.T) {
	t.Parallel()
	n := newNode(t, "nets")
	d := n.agent()
	n.says(driver.Healthy, "")
	if c := d.Info().Capabilities.Networks; !c.Makes || !c.Alloc || c.Host {
		t.Errorf("it can %+v", c)
	}
	made, err := d.MakeNetwork(t.Context(), "a1", "web")
	if err != nil || made.Path != "/run/made/a1" {
		t.Fatalf("%+v, %v", made, err)
	}
	must(t, d.EndNetwork(t.Context(), "a1", made))
	must(t, d.EndNetwork(t.Context(), "unknown", nil))
	if err := d.EndNetwork(t.Context(), "a1", nil); !fault.Has(err, fault.Invalid) {
		t.Errorf("the end of another: %v", err)
	}
	if _, err := d.MakeNetwork(t.Context(), "a1", "nowhere"); !fault.Has(err, fault.Invalid) {
		t.Errorf("no namespace: %v", err)
	}
	other := newNode(t, "well")
	d = other.agent()
	other.says(driver.Healthy, "")
	if _, err := d.MakeNetwork(t.Context(), "a1", "web"); !fault.Has(err, fault.Unsupported) {
		t.Errorf("a plugin that makes none: %v", err)
	}
	must(t, d.EndNetwork(t.Context(), "a1", nil))
}
