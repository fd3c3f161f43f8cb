package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/api"
)

func TestADevAgentLeavesNothing(t *testing.T) {
	needRoot(t)
	a := start(t, "-dev")
	a.until("the bundled plugin is healthy", func(ctx context.Context) error { return pluginHealthy(ctx, a.api) })
	raw := a.runJob(sleeper("raw", "raw_exec"), 1)[0].ID
	isolated := a.runJob(sleeper("isolated", "exec"), 1)[0].ID
	pid := a.pidOf(raw)
	health, err := a.api.Cluster().Health(t.Context())
	if err != nil || health.Client == nil || !health.Client.Ok || health.Server == nil || !health.Server.Ok {
		t.Errorf("agent/health: %+v, %v", health, err)
	}
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if alive(pid) {
		t.Errorf("task %d still runs", pid)
	}
	if left := processesNaming(t, a.tmp); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if left := mountsBelow(t, a.tmp); len(left) > 0 {
		t.Errorf("mounts left: %q", left)
	}
	for _, id := range []string{raw, isolated} {
		if left := cgroupsOf(t, id); len(left) > 0 {
			t.Errorf("cgroups left: %q", left)
		}
	}
	if left, err := os.ReadDir(a.tmp); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
	if bad := complaints(a.logged()); len(bad) > 0 {
		t.Errorf("a clean run was logged with complaints:\n%s", strings.Join(bad, ""))
	}
}

func pluginHealthy(ctx context.Context, c *api.Client) error {
	list, _, err := c.Plugins().List(ctx, nil)
	if err != nil {
		return err
	}
	if len(list) != 1 || list[0].NodesHealthy != 1 || list[0].ControllersHealthy != 1 {
		return fmt.Errorf("plugins: %d", len(list))
	}
	return nil
}

func TestASecondInterruptEndsTheWait(t *testing.T) {
	needRoot(t)
	data := tempDir(t)
	a := start(t, "-dev", "-data-dir", data)
	id := a.runJob(`
job "stubborn" {
  group "g" {
    task "sleep" {
      driver       = "raw_exec"
      kill_timeout = "15s"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap '> local/heard' INT TERM; echo $$ > local/pid; while :; do sleep 0.1; done"]
      }
    }
  }
}`, 1)[0].ID
	pid := a.pidOf(id)
	a.signal(syscall.SIGINT)
	a.until("the task is asked to end, and the agent waits for it", func(context.Context) error {
		_, err := os.Stat(filepath.Join(data, "alloc", id, "sleep", "local", "heard"))
		return err
	})
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err == nil {
		t.Error("an agent that left a task behind reports success")
	}
	if !strings.Contains(a.logged(), "asked to stop again") {
		t.Error("the log does not say what was left")
	}
	// The next start finds the task and, asked to stop once, ends it in its time.
	b := start(t, "-dev", "-data-dir", data)
	b.until("the task is found or ended", func(context.Context) error {
		if !alive(pid) {
			return nil
		}
		_, _, err := b.api.Allocations().Get(t.Context(), id, nil)
		return err
	})
	b.signal(syscall.SIGTERM)
	if err := b.wait(60 * time.Second); err != nil {
		t.Errorf("the next agent ended with %v", err)
	}
	if alive(pid) {
		t.Errorf("task %d outlived two agents of -dev", pid)
	}
}

// serviceConfig is the file of an agent that is not for trying out. Its API is on a socket beside the file.
func serviceConfig(t *testing.T, data string) string {
	t.Helper()
	path := filepath.Join(tempDir(t), "berth.hcl")
	text := fmt.Sprintf(`data_dir = %q
server { enabled = true }
client {
  enabled   = true
  local_csi = true
}
plugin "raw_exec" {
  config { enabled = true }
}
api { socket = %q }
keyring { recovery = ["none"] }
`, data, socketOf(path))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func socketOf(config string) string { return filepath.Join(filepath.Dir(config), "api.sock") }

func TestTasksOutliveAnAgentInService(t *testing.T) {
	needRoot(t)
	data := tempDir(t)
	config := serviceConfig(t, data)
	a := start(t, "-config", config)
	a.until("the bundled plugin is healthy", func(ctx context.Context) error { return pluginHealthy(ctx, a.api) })
	id := a.runJob(sleeper("stays", "raw_exec"), 1)[0].ID
	pid := a.pidOf(id)
	node := nodeID(t, a)
	plugins := processesNaming(t, filepath.Join(data, "volumes"))

	a.signal(syscall.SIGTERM)
	if err := a.wait(time.Minute); err != nil {
		t.Fatalf("the agent ended with %v", err)
	}
	if !alive(pid) {
		t.Fatal("the task ended with its agent")
	}
	if bad := complaints(a.logged()); len(bad) > 0 {
		t.Errorf("a clean run was logged with complaints:\n%s", strings.Join(bad, ""))
	}

	b := start(t, "-config", config)
	if got := nodeID(t, b); got != node {
		t.Errorf("the node was %s and is %s", node, got)
	}
	if got := b.running("stays", 1)[0].ID; got != id {
		t.Errorf("alloc %s was replaced by %s", id, got)
	}
	b.until("the bundled plugin is healthy again", func(ctx context.Context) error { return pluginHealthy(ctx, b.api) })
	if got := b.pidOf(id); got != pid || !alive(pid) {
		t.Errorf("the task was started again: %d, was %d", got, pid)
	}
	// For a moment a child that runs another program looks like its parent.
	b.until("the plugins are those that ran before", func(context.Context) error {
		if got := processesNaming(t, filepath.Join(data, "volumes")); !maps.Equal(got, plugins) {
			return fmt.Errorf("plugins are %v, were %v", got, plugins)
		}
		return nil
	})
	if bad := complaints(b.logged()); len(bad) > 0 {
		t.Errorf("a clean start was logged with complaints:\n%s", strings.Join(bad, ""))
	}
	stopJobs(t, b, "stays")
	if alive(pid) {
		t.Error("the adopted task could not be stopped")
	}
}

func nodeID(t *testing.T, a *agentProcess) string {
	t.Helper()
	nodes, _, err := a.api.Nodes().List(t.Context(), nil)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("nodes: %v, %v", nodes, err)
	}
	return nodes[0].ID
}

// stopJobs ends jobs and the bundled plugin, and then the agent, so that an agent in service leaves nothing either.
func stopJobs(t *testing.T, a *agentProcess, jobs ...string) {
	t.Helper()
	for _, id := range jobs {
		if _, _, err := a.api.Jobs().Deregister(t.Context(), id, api.JobDeregisterOptions{}, nil); err != nil {
			t.Fatal(err)
		}
		a.running(id, 0)
	}
	a.signal(syscall.SIGTERM)
	if err := a.wait(time.Minute); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	// -dev on the same directory ends what the service left: the bundled plugin.
	c := start(t, "-dev", "-data-dir", a.dataDir())
	c.signal(syscall.SIGTERM)
	if err := c.wait(time.Minute); err != nil {
		t.Errorf("the last agent ended with %v", err)
	}
	if left := processesNaming(t, a.dataDir()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// dataDir asks the agent's own file.
func (a *agentProcess) dataDir() string {
	for i, arg := range a.cmd.Args {
		switch arg {
		case "-data-dir":
			return a.cmd.Args[i+1]
		case "-config":
			text, err := os.ReadFile(a.cmd.Args[i+1])
			if err != nil {
				a.t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(text), "data_dir = ")
			quoted, _, _ := strings.Cut(rest, "\n")
			dir, err := strconv.Unquote(quoted)
			if err != nil {
				a.t.Fatal(err)
			}
			return dir
		}
	}
	return ""
}

func TestASecondAgentIsRefused(t *testing.T) {
	needRoot(t)
	data := tempDir(t)
	a := start(t, "-dev", "-data-dir", data)
	b := command(t, "-dev", "-data-dir", data)
	b.begin()
	if err := b.wait(time.Minute); err == nil {
		t.Error("a second agent ran on the same data_dir")
	}
	for _, want := range []string{data, fmt.Sprintf("process %d", a.cmd.Process.Pid), "another data_dir"} {
		if !strings.Contains(b.logged(), want) {
			t.Errorf("the refusal lacks %q:\n%s", want, b.logged())
		}
	}
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
}

func TestAPortInUseIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nothing was accepted
	port := l.Addr().(*net.TCPAddr).Port
	a := command(t, "-dev", "-http-port", strconv.Itoa(port))
	a.begin()
	if err := a.wait(time.Minute); err == nil {
		t.Error("an agent ran on a port of another")
	}
	for _, want := range []string{strconv.Itoa(port), "in use", "-http-port"} {
		if !strings.Contains(a.logged(), want) {
			t.Errorf("the refusal lacks %q:\n%s", want, a.logged())
		}
	}
	if left, err := os.ReadDir(a.tmp); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

func TestMonitorStreamsTheLog(t *testing.T) {
	needRoot(t)
	a := start(t, "-dev")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	frames, err := a.api.Cluster().Monitor(ctx, api.MonitorOptions{Level: "debug"})
	if err != nil {
		t.Fatal(err)
	}
	a.runJob(sleeper("seen", "raw_exec"), 1)
	text := ""
	for !strings.Contains(text, " [DEBUG] ") {
		f, err := frames.Next()
		if err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		text += string(f.Data)
	}
	if strings.Contains(a.logged(), "level=DEBUG") {
		t.Error("following at debug changed what the agent itself logs")
	}
	if err := frames.Close(); err != nil {
		t.Error(err)
	}
	self, err := a.api.Cluster().Self(t.Context())
	if err != nil || self.Stats["client"]["node_id"] != nodeID(t, a) || self.Config["DataDir"] == "" {
		t.Errorf("agent/self: %+v, %v", self, err)
	}
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
}

func TestTheLongestDataDirWorks(t *testing.T) {
	needRoot(t)
	base := tempDir(t)
	data := filepath.Join(base, strings.Repeat("d", 60-len(base)-1))
	a := start(t, "-dev", "-data-dir", data)
	a.until("the bundled plugin is healthy", func(ctx context.Context) error { return pluginHealthy(ctx, a.api) })
	a.runJob(sleeper("deep", "exec"), 1)
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
}

// BenchmarkColdStart is the time from the start of the program to a node that takes work.
func BenchmarkColdStart(b *testing.B) {
	for b.Loop() {
		a := start(b, "-dev")
		b.StopTimer()
		a.signal(syscall.SIGINT)
		if err := a.wait(time.Minute); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
