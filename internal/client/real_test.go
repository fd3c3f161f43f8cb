package client_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/render"
	"berth/internal/client"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
	"berth/internal/port/driver/rawexec"
	"berth/internal/wire"
)

// helperDir is where the helper was built; empty when no test needed it.
var helperDir string

// helperProgram builds the helper once per run of the tests.
var helperProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "berth-helper-*")
	if err != nil {
		return "", err
	}
	helperDir = dir
	path := filepath.Join(dir, "berth-helper")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "berth/cmd/berth-helper")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

// The test's own program is the child that renders templates, too.
func TestMain(m *testing.M) {
	if os.Args[0] == render.Work.Role {
		os.Exit(render.Main(os.Stdin, os.Stdout))
	}
	code := m.Run()
	if helperDir != "" {
		_ = os.RemoveAll(helperDir) // a directory of this run alone
	}
	os.Exit(code)
}

// realRig has the drivers that start real processes.
func realRig(t *testing.T) *rig {
	if os.Geteuid() != 0 {
		t.Skip("real tasks need root: cgroups, namespaces, tmpfs")
	}
	helper, err := helperProgram()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	short, err := os.MkdirTemp("/tmp", "bt")
	if err != nil {
		t.Fatal(err)
	}
	cfg := shim.Config{
		Dir:     short,
		Slice:   "berth-client-test.slice",
		Program: func() (*os.File, error) { return os.Open(helper) },
	}
	l, err := shim.New(cfg) // beside those of the agents
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.EndAll(ctx); err != nil {
			t.Errorf("end all shims: %v", err)
		}
		if err := os.RemoveAll(short); err != nil {
			t.Error(err)
		}
	})
	r.shims = l
	r.tune = func(c *client.Config) { c.Shims, c.RawExec = &cfg, rawexec.Config{Enabled: true} }
	return r
}

func shell(name, drv, script string) *job.Task {
	return &job.Task{
		Name:        name,
		Driver:      drv,
		KillTimeout: 2 * time.Second,
		Env:         map[string]string{"GREETING": "hello from ${NOMAD_TASK_NAME}"},
		Config:      map[string]any{"command": "/bin/sh", "args": []any{"-c", script}},
		LogConfig:   &job.LogConfig{MaxFiles: 2, MaxFileSizeMB: 1},
	}
}

func (r *rig) reversedConn() wire.Conn {
	select {
	case c := <-r.servers.reversed:
		r.t.Cleanup(func() { _ = c.Close() })
		return c
	case <-time.After(time.Minute):
		r.t.Fatal("the node never dialled its second connection")
	}
	return nil
}

func readAll(t *testing.T, c wire.Conn, req *wire.AllocLogsRequest) string {
	t.Helper()
	s, err := wire.AllocLogs.Open(t.Context(), c, req)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for {
		f, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatalf("logs: %v", err)
		}
		b.Write(f.Data)
	}
}

func TestARealTaskRunsWritesAndIsReadFromTheServers(t *testing.T) {
	for _, drv := range []string{"raw_exec", "exec"} {
		t.Run(drv, func(t *testing.T) {
			r := realRig(t)
			c := r.start()
			tk := shell("sh", drv,
				`echo "$GREETING $(cat "$NOMAD_TASK_DIR/conf")"; echo data > "$NOMAD_ALLOC_DIR/data/f"; while :; do sleep 0.1; done`)
			tk.Templates = []*job.Template{{
				EmbeddedTmpl: `{{ env "NOMAD_JOB_NAME" | toUpper }}`,
				DestPath:     "local/conf",
				Perms:        "0644",
			}}
			id := r.servers.place(service(tk))
			eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
			conn := r.reversedConn()
			ref := wire.AgentRef{Node: c.ID(), Alloc: id}

			eventually(t, "its output can be read", func() bool {
				return readAll(t, conn,
					&wire.AllocLogsRequest{AgentRef: ref, Task: "sh", Type: "stdout"}) == "hello from sh WEB\n"
			})
			if got := readAll(t, conn, &wire.AllocLogsRequest{
				AgentRef: ref,
				Task:     "sh",
				Type:     "stdout",
				Origin:   "end",
				Offset:   4,
			}); got != "WEB\n" {
				t.Errorf("the last four bytes: %q", got)
			}
			list, err := wire.AllocFiles.Call(t.Context(), conn, &wire.AllocPath{AgentRef: ref, Path: "/"})
			if err != nil || len(list.Files) != 2 || list.Files[0].Name != "alloc" || list.Files[1].Name != "sh" {
				t.Errorf("listing: %v %v", list, err)
			}
			if _, err := wire.AllocFiles.Call(t.Context(), conn,
				&wire.AllocPath{AgentRef: ref, Path: "sh/secrets"}); err == nil {
				t.Error("the secrets can be listed")
			}
			out, code := command(t, conn, ref, "sh", "cat; exit 7", "typed")
			if out != "typed" || code != 7 {
				t.Errorf("exec: %q, exit %d", out, code)
			}
			stats, err := wire.AllocStats.Call(t.Context(), conn, &ref)
			if err != nil || stats.Tasks["sh"].MemoryUsage == 0 {
				t.Errorf("stats: %+v %v", stats, err)
			}
			host, err := wire.AgentHostStats.Call(t.Context(), conn, &wire.AgentRef{Node: c.ID()})
			if err != nil || host.MemTotal == 0 || len(host.CPU) == 0 || host.AllocDir.Size == 0 {
				t.Errorf("host stats: %+v %v", host, err)
			}
			if _, err := wire.AgentHostStats.Call(t.Context(), conn, &wire.AgentRef{Node: "another"}); !fault.Has(err,
				fault.Invalid) {
				t.Errorf("what was meant for another node: %v", err)
			}
			if _, err := wire.AllocRestart.Call(t.Context(), conn,
				&wire.AllocRestartRequest{AgentRef: ref, Task: "sh"}); err != nil {
				t.Errorf("restart: %v", err)
			}
			eventually(t, "it says hello again", func() bool {
				return readAll(t, conn,
					&wire.AllocLogsRequest{
						AgentRef: ref,
						Task:     "sh",
						Type:     "stdout",
					}) == "hello from sh WEB\nhello from sh WEB\n"
			})
			// its output may be there before the agent knows that it runs
			eventually(t, "it is signalled", func() bool {
				_, err := wire.AllocSignal.Call(t.Context(), conn,
					&wire.AllocSignalRequest{AgentRef: ref, Signal: "SIGKILL"})
				return err == nil
			})
			eventually(t, "the signal is reported", func() bool {
				return slices.Contains(r.servers.events(id, "sh"), alloc.EventRestarting)
			})
			followed := follow(t, conn, &wire.AllocLogsRequest{AgentRef: ref, Task: "sh", Type: "stdout", Follow: true})
			r.servers.stop(id)
			eventually(t, "it is complete", func() bool { return r.servers.status(id) == alloc.ClientComplete })
			if got := <-followed; !strings.HasPrefix(got, "hello from sh WEB\n") {
				t.Errorf("followed %q", got)
			}
			nothingMounted(t, filepath.Join(c.AllocDir(), string(id)))
		})
	}
}

// follow reads a log until the task will not write any more.
func follow(t *testing.T, c wire.Conn, req *wire.AllocLogsRequest) <-chan string {
	out := make(chan string, 1)
	go func() { out <- readAll(t, c, req) }()
	return out
}

func command(t *testing.T, conn wire.Conn, ref wire.AgentRef, task, script, input string) (out string, code int) {
	t.Helper()
	s, err := wire.AllocExec.Open(t.Context(), conn,
		&wire.AllocExecRequest{AgentRef: ref, Task: task, Command: []string{"/bin/sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&wire.ExecInput{Stdin: []byte(input), CloseStdin: true}); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := s.Recv()
		if err != nil {
			t.Fatalf("exec: %v", err)
		}
		out += string(m.Stdout)
		if m.Exited {
			return out, m.ExitCode
		}
	}
}

func nothingMounted(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), dir) {
		t.Errorf("something is still mounted beneath %s", dir)
	}
}

func TestRealTasksOutliveTheAgentAndTheirEndIsLearntAfterwards(t *testing.T) {
	r := realRig(t)
	first := r.start()
	j := service(shell("sh", "raw_exec", `while ! test -e "$NOMAD_ALLOC_DIR/data/go"; do sleep 0.02; done; exit 5`))
	j.TaskGroups[0].RestartPolicy = &job.RestartPolicy{Mode: job.RestartFail}
	id := r.servers.place(j)
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	first.stop()
	if err := os.WriteFile(filepath.Join(first.AllocDir(), string(id), "alloc/data/go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}

	r.start()

	eventually(t, "it has failed", func() bool { return r.servers.status(id) == alloc.ClientFailed })
	st := r.servers.report(id).TaskStates["sh"]
	found := false
	for _, e := range st.Events {
		found = found || e.Type == alloc.EventTerminated && e.ExitCode == 5
	}
	if !found || !st.Failed {
		t.Errorf("the exit code is not told: %+v", st)
	}
}

func TestAProcessWhoseStartWasNeverRecordedIsGoneBeforeTheAllocIsComplete(t *testing.T) {
	r := realRig(t)
	failing := &failingDriver{Driver: rawexec.New(rawexec.Config{Enabled: true}, r.shims)}
	r.drivers = append(r.drivers, failing)
	first := r.start()
	id := r.servers.place(service(shell("sh", "failing", `exec sleep 987654`)))
	eventually(t, "the process runs though its start is not told", func() bool { return running(id) })
	first.stop()
	r.servers.stop(id)
	failing.tell = true

	r.start()

	eventually(t, "it is complete", func() bool { return r.servers.status(id) == alloc.ClientComplete })
	if running(id) {
		t.Error("its process lives although complete was said")
	}
}

// Given a shim that no record knows, when an agent starts, then its tasks go on, it is shown with what it runs, and
// nobody hears that its processes are gone; an agent that leaves nothing behind ends it.
func TestWhatNoRecordKnowsIsKeptAndShown(t *testing.T) {
	r := realRig(t)
	first := r.start()
	mine := r.servers.place(service(shell("sh", "raw_exec", `exec sleep 987654`)))
	eventually(t, "the task runs", func() bool { return r.servers.status(mine) == alloc.ClientRunning })
	first.stop()
	lost := ids.Alloc(ids.New())
	r.launch(lost)

	second := r.start()

	gone := func(id ids.Alloc) bool { is, _ := second.ProcessesGone(id); return is }
	eventually(t, "the orphan is shown", func() bool { return len(second.Orphans()) == 1 })
	if o := second.Orphans()[0]; o.Alloc != lost || o.Tasks[0].Task != "lost" {
		t.Errorf("orphan: %+v", o)
	}
	if gone(lost) || !running(lost) || !running(mine) {
		t.Errorf("gone: %t, the orphan runs: %t, the other: %t", gone(lost), running(lost), running(mine))
	}
	if !gone(ids.Alloc(ids.New())) {
		t.Error("an alloc without record and shim has processes")
	}
	eventually(t, "the servers hear of it", func() bool { return r.servers.orphan(lost) != nil })
	other := ids.Alloc(ids.New())
	r.launch(other)
	eventually(t, "another is shown", func() bool { return r.servers.orphan(other) != nil })
	if err := second.EndOrphan(t.Context(), other); err != nil || running(other) {
		t.Errorf("a person ends it: %v, it runs: %t", err, running(other))
	}
	eventually(t, "it is no longer shown", func() bool { return r.servers.orphan(other) == nil })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := second.Shutdown(ctx, true); err != nil {
		t.Fatal(err)
	}
	if running(lost) || running(mine) {
		t.Error("something was left behind")
	}
	eventually(t, "the orphan's processes are gone", func() bool { return gone(lost) })
}

// Given an alloc that has ended, when a shim of it is found all the same, then it is ended while the agent runs.
func TestAShimOfAnAllocThatHasEndedIsEnded(t *testing.T) {
	r := realRig(t)
	r.start()
	id := r.servers.place(service(shell("sh", "raw_exec", `exec sleep 987654`)))
	eventually(t, "the task runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	r.servers.stop(id)
	eventually(t, "it is complete", func() bool { return r.servers.status(id) == alloc.ClientComplete })

	r.launch(id)

	eventually(t, "it is ended", func() bool { return !running(id) })
}

// Given a running alloc, then its shim holds the bundle by which it can be named without the node's store.
func TestAShimCanNameItsAlloc(t *testing.T) {
	r := realRig(t)
	r.start()
	id := r.servers.place(service(shell("sh", "raw_exec", `exec sleep 987654`)))
	eventually(t, "the task runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	all, err := r.shims.Held(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("held: %+v, %v", all, err)
	}
	var b alloc.Bundle
	err = wire.DecodeStrict(all[0].Bundle, &b)
	if err != nil || b.Alloc == nil || b.Alloc.ID != id || b.Job == nil || b.Job.ID != "web" {
		t.Errorf("the bundle: %+v, %v", b, err)
	}
	r.servers.stop(id)
	eventually(t, "it stops", func() bool { return r.servers.status(id) == alloc.ClientComplete })
}

// launch starts a process in an alloc's shim behind the agent's back.
func (r *rig) launch(id ids.Alloc) {
	r.t.Helper()
	_, err := r.shims.Launch(r.t.Context(), &driver.LaunchSpec{
		AllocID: string(id),
		Task:    "lost",
		Attempt: 1,
		Argv:    []string{"/bin/sleep", "987654"},
		Env:     []string{"NOMAD_ALLOC_ID=" + string(id)},
		Dir:     "/",
		Logs:    driver.LogConfig{Disabled: true},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// failingDriver starts tasks and does not come back with it: what an agent that dies in a start sees.
type failingDriver struct {
	driver.Driver
	tell bool
}

func (f *failingDriver) Name() string { return "failing" }

func (f *failingDriver) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	if f.tell {
		return f.Driver.Start(ctx, cfg)
	}
	if _, err := f.Driver.Start(context.WithoutCancel(ctx), cfg); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// running reports whether a process has the alloc's id in its environment.
func running(id ids.Alloc) bool {
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return false
	}
	for _, p := range procs {
		if data, err := os.ReadFile(p); err == nil && strings.Contains(string(data), "NOMAD_ALLOC_ID="+string(id)) {
			return true
		}
	}
	return false
}
