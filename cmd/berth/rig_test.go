package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/api"
	"berth/internal/base/render"
	"berth/internal/httpapi/sandbox"
	"berth/internal/testkit/freeport"
	"berth/internal/testkit/mountns"
	"berth/jobspec"
)

// asBerth in the environment makes the test program behave as berth: what is tested is the real main function, and the
// bundled plugin's job starts the same program.
const asBerth = "BERTH_TEST_MAIN"

func TestMain(m *testing.M) {
	child := os.Args[0] == sandbox.Work.Role || os.Args[0] == render.Work.Role // without any environment
	if child || os.Getenv(asBerth) == "1" || len(os.Args) > 1 && os.Args[1] == "plugin" {
		code := run()
		if os.Getenv(afterwards) != "" {
			tellDumpable()
		}
		os.Exit(code)
	}
	mountns.Main(m.Run)
}

// agentProcess is an agent that a test started.
type agentProcess struct {
	t    testing.TB
	cmd  *exec.Cmd
	api  *api.Client
	port int
	tmp  string // its TMPDIR

	mu   sync.Mutex
	log  bytes.Buffer
	done chan struct{}
	err  error
}

// Write keeps the log.
func (a *agentProcess) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.Write(p)
}

func (a *agentProcess) logged() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.String()
}

// tempDir is short, because paths of sockets are, and removed after everything that was started in it.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endProcesses(t, dir)
		endMounts(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// endProcesses ends what a failed test left: shims, with their tasks, and plugins of agents in this directory.
func endProcesses(t testing.TB, dir string) {
	t.Helper()
	for range 100 {
		left := processesNaming(t, dir)
		if len(left) == 0 {
			return
		}
		for pid := range left {
			t.Errorf("left running: %s", left[pid])
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func endMounts(t testing.TB, dir string) {
	t.Helper()
	for _, m := range mountsBelow(t, dir) {
		t.Errorf("still mounted: %s", m)
		_ = syscall.Unmount(m, syscall.MNT_DETACH) // the error is reported already
	}
}

// needRoot skips where tasks cannot be run, and -short, which is for tests that start no agents.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("agents run tasks in cgroups and namespaces: this test needs root")
	}
	if testing.Short() {
		t.Skip("starts agents, each for seconds: not in a short run")
	}
}

// command makes the command of an agent without starting it: with -dev on a port of its own, else on the socket of
// serviceConfig.
func command(t testing.TB, args ...string) *agentProcess {
	t.Helper()
	a := &agentProcess{t: t, tmp: tempDir(t), done: make(chan struct{})}
	var address string
	if args[0] == "-config" {
		address = "unix://" + socketOf(args[1])
	} else {
		a.port = freeport.Pick(t)
		address = fmt.Sprintf("http://127.0.0.1:%d", a.port)
		args = append([]string{"-http-port", fmt.Sprint(a.port)}, args...)
	}
	a.cmd = exec.Command(os.Args[0], append([]string{"agent"}, args...)...)
	a.cmd.Env = append(os.Environ(), asBerth+"=1", "TMPDIR="+a.tmp)
	a.cmd.Stdout, a.cmd.Stderr = a, a
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	client, err := api.NewClient(api.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	a.api = client
	return a
}

// start starts an agent and waits until its node is ready.
func start(t testing.TB, args ...string) *agentProcess {
	t.Helper()
	a := command(t, args...)
	a.begin()
	a.waitReady()
	return a
}

func (a *agentProcess) begin() {
	a.t.Helper()
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	go func() {
		a.err = a.cmd.Wait()
		close(a.done)
	}()
	a.t.Cleanup(func() {
		_ = a.cmd.Process.Kill() // it may have ended
		<-a.done
		if a.t.Failed() {
			a.t.Logf("the agent's log:\n%s", a.logged())
		}
	})
}

func (a *agentProcess) waitReady() {
	a.t.Helper()
	a.until("the node is ready", func(ctx context.Context) error {
		nodes, _, err := a.api.Nodes().List(ctx, nil)
		if err != nil {
			return err
		}
		if len(nodes) != 1 || nodes[0].Status != "ready" {
			return fmt.Errorf("nodes are %d", len(nodes))
		}
		return nil
	})
}

// until waits for a fact, at most two minutes.
func (a *agentProcess) until(what string, fact func(context.Context) error) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	var last error
	for {
		err := fact(ctx)
		if err == nil {
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-a.done:
			a.t.Fatalf("waiting until %s: the agent ended: %v\n%s", what, a.err, a.logged())
		case <-ctx.Done():
			a.t.Fatalf("not in time: %s: %v", what, last)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// signal sends a signal.
func (a *agentProcess) signal(s syscall.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// wait waits for the agent's end.
func (a *agentProcess) wait(within time.Duration) error {
	a.t.Helper()
	select {
	case <-a.done:
		return a.err
	case <-time.After(within):
		a.t.Fatalf("the agent still runs after %s\n%s", within, a.logged())
		return nil
	}
}

// runJob registers a job file and waits until it has n running allocs.
func (a *agentProcess) runJob(text string, n int) []*api.AllocationListStub {
	a.t.Helper()
	job := parseJob(a.t, text)
	if _, _, err := a.api.Jobs().Register(a.t.Context(), &api.JobRegisterRequest{Job: job}, nil); err != nil {
		a.t.Fatal(err)
	}
	return a.running(*job.ID, n)
}

func parseJob(t testing.TB, text string) *api.Job {
	t.Helper()
	job, err := jobspec.Parse(jobspec.ParseConfig{Path: "test.hcl", Source: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func (a *agentProcess) running(job string, n int) (out []*api.AllocationListStub) {
	a.t.Helper()
	a.until("job "+job+" runs", func(ctx context.Context) error {
		allocs, _, err := a.api.Jobs().Allocations(ctx, job, false, nil)
		if err != nil {
			return err
		}
		out = out[:0]
		for _, al := range allocs {
			if al.ClientStatus == "running" {
				out = append(out, al)
			}
		}
		if len(out) != n {
			return fmt.Errorf("%d of %d allocs run", len(out), n)
		}
		return nil
	})
	return out
}

// sleeper is a job with one task that writes its pid and sleeps.
func sleeper(name, driver string) string {
	return fmt.Sprintf(`
job %[1]q {
  type = "service"
  group "g" {
    ephemeral_disk {
      size = 10
    }
    task "sleep" {
      driver = %[2]q
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $$ > local/pid; exec sleep 86400"]
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`, name, driver)
}

// pidOf reads the pid that a raw sleeper wrote.
func (a *agentProcess) pidOf(alloc string) int {
	a.t.Helper()
	var pid int
	a.until("the task wrote its pid", func(ctx context.Context) error {
		body, err := a.api.Allocations().CatFile(ctx, alloc, "sleep/local/pid", nil)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }() // it was read
		_, err = fmt.Fscan(body, &pid)
		return err
	})
	return pid
}

// alive reports whether a process runs; one that is dead and not yet reaped does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func mountsBelow(t testing.TB, dir string) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			out = append([]string{f[4]}, out...)
		}
	}
	return out
}

// processesNaming finds processes whose command line names a directory.
func processesNaming(t testing.TB, dir string) map[int]string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]string{}
	for _, path := range lines {
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(dir)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			out[pid] = strings.ReplaceAll(string(data), "\x00", " ")
		}
	}
	return out
}

// cgroupsOf lists the cgroups that are named after an alloc.
func cgroupsOf(t testing.TB, alloc string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // it went away meanwhile
		}
		if err == nil && d.IsDir() && strings.Contains(d.Name(), alloc) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// complaints are the lines of a log that warn or worse.
func complaints(log string) []string {
	var out []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") ||
			!strings.Contains(line, "level=") {
			out = append(out, line)
		}
	}
	return out
}
