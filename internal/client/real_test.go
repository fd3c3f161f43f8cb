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
	"berth/internal/client"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
	drvexec "berth/internal/port/driver/exec"
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
	cmd := exec.Command("go", "build", "-o", path, "berth/cmd/berth-helper")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

func TestMain(m *testing.M) {
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
	l, err := shim.New(shim.Config{Dir: short, Slice: "berth-client-test.slice", Program: func() (*os.File, error) { return os.Open(helper) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := l.Prune(ctx, nil); err != nil {
			t.Errorf("prune: %v", err)
		}
		if err := os.RemoveAll(short); err != nil {
			t.Error(err)
		}
	})
	r.drivers = append(r.drivers, rawexec.New(rawexec.Config{Enabled: true}, l), drvexec.New(drvexec.Config{}, l))
	r.launcher = l
	r.tune = func(c *client.Config) { c.EndProcesses, c.EndStrangers = l.End, l.Prune }
	return r
}

func shell(name, drv, script string) *job.Task {
	return &job.Task{Name: name, Driver: drv, KillTimeout: 2 * time.Second, Env: map[string]string{"GREETING": "hello from ${NOMAD_TASK_NAME}"},
		Config: map[string]any{"command": "/bin/sh", "args": []any{"-c", script}}, LogConfig: &job.LogConfig{MaxFiles: 2, MaxFileSizeMB: 1}}
}

func (r *rig) reversedConn() wire.Conn {
	select {
	case c := <-r.servers.reversed:
		r.t.Cleanup(func() { _ = c.Close() })
		return c
	case <-time.After(10 * time.Second):
		r.t.Fatal("the node never dialled its second connection")
	}
	return nil
}

func readAll(t *testing.T, c wire.Conn, req *wire.RunLogsRequest) string {
	t.Helper()
	s, err := wire.RunLogs.Open(t.Context(), c, req)
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
			tk := shell("sh", drv, `echo "$GREETING $(cat "$NOMAD_TASK_DIR/conf")"; echo data > "$NOMAD_ALLOC_DIR/data/f"; while :; do sleep 0.1; done`)
			tk.Templates = []*job.Template{{EmbeddedTmpl: `{{ env "NOMAD_JOB_NAME" | toUpper }}`, DestPath: "local/conf", Perms: "0644"}}
			id := r.servers.place(service(tk))
			eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
			conn := r.reversedConn()
			ref := wire.RunRef{Node: c.ID(), Alloc: id}

			eventually(t, "its output can be read", func() bool {
				return readAll(t, conn, &wire.RunLogsRequest{RunRef: ref, Task: "sh", Type: "stdout"}) == "hello from sh WEB\n"
			})
			if got := readAll(t, conn, &wire.RunLogsRequest{RunRef: ref, Task: "sh", Type: "stdout", Origin: "end", Offset: 4}); got != "WEB\n" {
				t.Errorf("the last four bytes: %q", got)
			}
			list, err := wire.RunList.Call(t.Context(), conn, &wire.RunPath{RunRef: ref, Path: "/"})
			if err != nil || len(list.Files) != 2 || list.Files[0].Name != "alloc" || list.Files[1].Name != "sh" {
				t.Errorf("listing: %v %v", list, err)
			}
			if _, err := wire.RunList.Call(t.Context(), conn, &wire.RunPath{RunRef: ref, Path: "sh/secrets"}); err == nil {
				t.Error("the secrets can be listed")
			}
			out, code := command(t, conn, ref, "sh", "cat; exit 7", "typed")
			if out != "typed" || code != 7 {
				t.Errorf("exec: %q, exit %d", out, code)
			}
			stats, err := wire.RunStats.Call(t.Context(), conn, &ref)
			if err != nil || stats.Tasks["sh"].MemoryUsage == 0 {
				t.Errorf("stats: %+v %v", stats, err)
			}
			host, err := wire.RunHost.Call(t.Context(), conn, &wire.RunRef{Node: c.ID()})
			if err != nil || host.MemTotal == 0 || len(host.CPU) == 0 || host.AllocDir.Size == 0 {
				t.Errorf("host stats: %+v %v", host, err)
			}
			if _, err := wire.RunHost.Call(t.Context(), conn, &wire.RunRef{Node: "another"}); !fault.Has(err, fault.Invalid) {
				t.Errorf("what was meant for another node: %v", err)
			}
			if _, err := wire.RunRestart.Call(t.Context(), conn, &wire.RunRestartRequest{RunRef: ref, Task: "sh"}); err != nil {
				t.Errorf("restart: %v", err)
			}
			eventually(t, "it says hello again", func() bool {
				return readAll(t, conn, &wire.RunLogsRequest{RunRef: ref, Task: "sh", Type: "stdout"}) == "hello from sh WEB\nhello from sh WEB\n"
			})
			if _, err := wire.RunSignal.Call(t.Context(), conn, &wire.RunSignalRequest{RunRef: ref, Signal: "SIGKILL"}); err != nil {
				t.Errorf("signal: %v", err)
			}
			eventually(t, "the signal is told", func() bool { return slices.Contains(r.servers.events(id, "sh"), alloc.EventRestarting) })
			followed := follow(t, conn, &wire.RunLogsRequest{RunRef: ref, Task: "sh", Type: "stdout", Follow: true})
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
func follow(t *testing.T, c wire.Conn, req *wire.RunLogsRequest) <-chan string {
	out := make(chan string, 1)
	go func() { out <- readAll(t, c, req) }()
	return out
}

func command(t *testing.T, conn wire.Conn, ref wire.RunRef, task, script, input string) (out string, code int) {
	t.Helper()
	s, err := wire.RunExec.Open(t.Context(), conn, &wire.RunExecRequest{RunRef: ref, Task: task, Command: []string{"/bin/sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&wire.RunExecIn{Stdin: []byte(input), CloseStdin: true}); err != nil {
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
	failing := &failingDriver{Driver: r.drivers[1]}
	r.drivers[1] = failing
	first := r.start()
	id := r.servers.place(service(shell("sh", "raw_exec", `exec sleep 987654`)))
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

func TestTheNextStartEndsWhatNoRecordKnowsAndNothingElse(t *testing.T) {
	r := realRig(t)
	first := r.start()
	mine := r.servers.place(service(shell("sh", "raw_exec", `exec sleep 987654`)))
	eventually(t, "the task runs", func() bool { return r.servers.status(mine) == alloc.ClientRunning })
	first.stop()
	stranger := ids.New()
	_, err := r.launcher.Launch(t.Context(), &driver.LaunchSpec{AllocID: stranger, Name: "lost.1", Task: "lost",
		Argv: []string{"/bin/sleep", "987654"}, Env: []string{"NOMAD_ALLOC_ID=" + stranger}, Dir: "/", Logs: driver.LogConfig{Disabled: true}})
	if err != nil {
		t.Fatal(err)
	}

	r.start()

	eventually(t, "the stranger is ended", func() bool { return !running(ids.Alloc(stranger)) })
	if !running(mine) {
		t.Error("a task that is on record was ended too")
	}
	r.servers.stop(mine)
	eventually(t, "it stops", func() bool { return r.servers.status(mine) == alloc.ClientComplete })
}

// failingDriver starts tasks and does not come back with it: what an agent that dies in a start sees.
type failingDriver struct {
	driver.Driver
	tell bool
}

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
