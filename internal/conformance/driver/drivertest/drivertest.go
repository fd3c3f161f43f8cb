// Package drivertest owns the conformance suite of task drivers that start real processes: every such driver runs it,
// and passes it, as root on a real kernel. Tests import it, and what authors of drivers will run against theirs.
package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/port/driver"
)

// Harness is what a driver brings to the suite.
type Harness struct {
	// New returns the driver in a new run of the agent: it knows nothing of earlier ones but what lies on the node.
	New func(t testing.TB) driver.Driver
	// Holder returns the pid of the process that holds a task while no agent is there.
	Holder func(t testing.TB, h driver.TaskHandle) int
	// Leftovers names what is on the node of all tasks so far (cgroups, sockets). It must be empty after each test.
	Leftovers func(t testing.TB) []string
	// Except are cases that the driver does not claim to pass, each with the reason.
	Except map[string]string
	// Adjust makes the task of a case one that the driver takes; nil: it takes command and args as they are.
	Adjust func(name string, cfg *driver.TaskConfig)
	// Takes names bad configurations that are none for the driver.
	Takes []string
	// SizeLags: a terminal has its size a moment after its command has begun, and not with it.
	SizeLags bool
	// OutputLags: what a task wrote is in its files a moment after its end, and not with it.
	OutputLags bool
}

// Factory makes a harness for one test.
type Factory func(t *testing.T) *Harness

// Run runs the whole suite.
func Run(t *testing.T, factory Factory) {
	if os.Geteuid() != 0 {
		t.Skip("tasks need root: cgroups, namespaces and other users")
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := factory(t)
			if why := h.Except[c.name]; why != "" {
				t.Skip(why)
			}
			b := &bench{TB: t, name: c.name, h: h, d: h.New(t)}
			c.run(b)
			b.stopAll()
			if mounts := mountsBelow(t, b.dir); len(mounts) > 0 {
				t.Errorf("the node's mount table shows %v", mounts)
			}
			if left := h.Leftovers(t); len(left) > 0 {
				t.Errorf("left behind: %s", strings.Join(left, ", "))
			}
		})
	}
}

var cases = []struct {
	name string
	run  func(*bench)
}{
	{"exit code and output", exitCode},
	{"environment and directories", environment},
	{"a command that is not found", notFound},
	{"a bad configuration", badConfig},
	{"signals", signals},
	{"stop with grace", stopWithGrace},
	{"stop of one that does not listen", stopStubborn},
	{"stop kills daemonised grandchildren", stopTree},
	{"recover a running task", recoverRunning},
	{"recover a task that ended meanwhile", recoverEnded},
	{"an attempt that nobody knows of is ended", unknownAttempt},
	{"an attempt that is started twice runs once", startedTwice},
	{"a start that is aborted leaves nothing", aborted},
	{"a stop that is given up goes on", stopGivenUp},
	{"its holder is killed", holderKilled},
	{"its holder is killed while no agent is there", holderKilledAlone},
	{"log rotation", logRotation},
	{"logs continue in the next attempt", logsContinue},
	{"exec with pipes", execPipes},
	{"exec with a terminal", execTerminal},
	{"exec that is given up", execGivenUp},
	{"exec of a command that cannot run", execUnrunnable},
	{"out of memory", outOfMemory},
	{"small memory", smallMemory},
	{"another user", otherUser},
	{"usage", usage},
	{"several tasks of one alloc", severalTasks},
}

// bench is one test's workplace.
type bench struct {
	testing.TB
	name  string // of the case
	h     *Harness
	d     driver.Driver
	tasks []driver.Task
	alloc ids.Alloc
	dir   string
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(b.TB.Context(), time.Minute)
	b.Cleanup(cancel)
	return ctx
}

// config makes a task that runs a shell script, with all directories that a runner would have made.
func (b *bench) config(script string) *driver.TaskConfig {
	b.Helper()
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "alloc")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				b.Error(err)
			}
		})
		b.dir, b.alloc = dir, ids.Alloc(ids.New())
	}
	return b.adjusted(Config(b, b.dir, b.alloc, "web", script))
}

// adjusted is a task as its driver takes it.
func (b *bench) adjusted(cfg *driver.TaskConfig) *driver.TaskConfig {
	if b.h.Adjust != nil {
		b.h.Adjust(b.name, cfg)
	}
	return cfg
}

// Config makes a task's configuration with all directories that a runner would have made below dir.
func Config(t testing.TB, dir string, alloc ids.Alloc, task, script string) *driver.TaskConfig {
	t.Helper()
	for _, d := range []string{"alloc/logs", "alloc/data", task + "/local", task + "/secrets", task + "/tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"", "alloc", "alloc/data", task, task + "/local", task + "/tmp"} {
		if err := os.Chmod(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return &driver.TaskConfig{
		Alloc:     alloc,
		Job:       "job",
		Group:     "group",
		Task:      task,
		Attempt:   1,
		Env:       map[string]string{"GREETING": "hello"},
		Config:    map[string]any{"command": "/bin/sh", "args": []any{"-c", script}},
		Resources: driver.Resources{CPUShares: 100, MemoryMB: 64},
		Logs:      driver.LogConfig{Dir: filepath.Join(dir, "alloc/logs"), MaxFiles: 10, MaxBytes: 1 << 20},
		AllocDir:  filepath.Join(dir, "alloc"),
		TaskDir:   filepath.Join(dir, task),
	}
}

func (b *bench) start(cfg *driver.TaskConfig) driver.Task {
	b.Helper()
	task, err := b.d.Start(b.context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.tasks = append(b.tasks, task)
	return task
}

func (b *bench) wait(task driver.Task) driver.ExitResult {
	b.Helper()
	exit, err := task.Wait(b.context())
	if err != nil {
		b.Fatal(err)
	}
	return exit
}

func (b *bench) stop(task driver.Task) {
	b.Helper()
	if err := task.Stop(b.context(), "", 0); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) stopAll() {
	b.Helper()
	for _, task := range b.tasks {
		if err := task.Stop(b.context(), "", 0); err != nil {
			b.Error(err)
		}
	}
}

// output reads the first log file of a stream.
func (b *bench) output(cfg *driver.TaskConfig, stream string) string {
	b.Helper()
	b.settle(cfg)
	out, err := os.ReadFile(filepath.Join(cfg.Logs.Dir, cfg.Task+"."+stream+".0"))
	if err != nil {
		b.Fatal(err)
	}
	return string(out)
}

// settle waits until nothing more has come of a task's output for a while, where it comes late.
func (b *bench) settle(cfg *driver.TaskConfig) {
	sizes := func() (all string) {
		files, _ := filepath.Glob(filepath.Join(cfg.Logs.Dir, "*")) // the pattern is well formed
		for _, f := range files {
			if st, err := os.Stat(f); err == nil {
				all += fmt.Sprintln(f, st.Size())
			}
		}
		return all
	}
	for before := ""; b.h.OutputLags && before != sizes(); {
		before = sizes()
		time.Sleep(200 * time.Millisecond)
	}
}

// beside runs fn in a goroutine and returns a function that waits for it.
func (b *bench) beside(fn func()) (join func()) {
	g, _ := lifecycle.NewGroup(b.TB.Context())
	g.Go("beside the test", func() error { fn(); return nil })
	return func() {
		b.Helper()
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// printed waits until a task has printed a line.
func (b *bench) printed(cfg *driver.TaskConfig, line string) {
	b.Helper()
	b.eventually("the task printed "+line, func() bool {
		out, err := os.ReadFile(filepath.Join(cfg.Logs.Dir, cfg.Task+".stdout.0"))
		return err == nil && slices.Contains(strings.Split(string(out), "\n"), line)
	})
}

func (b *bench) eventually(what string, is func() bool) {
	b.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	b.Fatalf("it never came true that %s", what)
}

var marks int

// mark makes a number that no other process has on its command line.
func mark() string {
	marks++
	return fmt.Sprintf("%d.%d", 100000+os.Getpid(), marks)
}

// running lists the processes whose command line holds all the words.
func running(t testing.TB, words ...string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil {
			continue // it ended
		}
		args := strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
		if !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(args, w) }) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mountsBelow lists the node's mounts of or at a directory.
func mountsBelow(t testing.TB, dir string) (found []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if dir != "" && strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

// kill kills a process outright, as an operator's mistake or the kernel would.
func kill(t testing.TB, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}
