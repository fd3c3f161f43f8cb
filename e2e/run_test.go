package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/api"
	"berth/internal/testkit/freeport"
)

// shell is a job with one task that runs a script.
type shell struct {
	id, kind string // kind: service unless named
	count    int
	script   string
	group    string // more of the group block
	restarts int
	again    bool // failed allocations are placed anew
}

// For jobs that need no more: what runs for ever, and what is not well soon after its start.
const (
	lasting = `trap 'exit 0' TERM INT; while :; do sleep 0.1 & wait $!; done`
	broken  = `echo first >&2; echo "cannot open the door" >&2; sleep 2; exit 3`
)

func (s shell) hcl() string {
	kind, update := s.kind, `update { min_healthy_time = "1s" }`
	if kind == "" {
		kind = "service"
	}
	reschedule := "reschedule {\n attempts = 0\n unlimited = false\n}"
	if kind != "service" || s.again {
		reschedule = ""
	}
	if kind == "batch" {
		update, reschedule = "", "reschedule {\n attempts = 0\n unlimited = false\n}"
	}
	script := strings.ReplaceAll(strings.ReplaceAll(s.script, "${", "$${"), "%{", "%%{")
	return fmt.Sprintf(`
job %q {
  type = %q
  group "g" {
    count = %d
    %s
    restart {
      attempts = %d
      delay    = "1s"
      mode     = "fail"
    }
    %s
    %s
    task "t" {
      driver       = "raw_exec"
      kill_timeout = "2s"
      config {
        command = "/bin/sh"
        args    = ["-c", <<S
%s
S
        ]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`, s.id, kind, max(s.count, 1), update, s.restarts, reschedule, s.group, script)
}

// jobRun is "berth job run" of a job, with what it says and its exit code.
func (m *machine) jobRun(hcl string, flags ...string) (string, int) {
	m.t.Helper()
	path := filepath.Join(m.rig, "job.nomad.hcl")
	must(m.t, os.WriteFile(path, []byte(hcl), 0o600))
	return m.cli(append(append([]string{"job", "run"}, flags...), path)...)
}

// runsTo runs a job, and wants the exit code and words that are in what it says.
func (m *machine) runsTo(hcl string, code int, words ...string) string {
	m.t.Helper()
	out, got := m.jobRun(hcl)
	if got != code {
		m.t.Errorf("exit code %d, want %d:\n%s", got, code, out)
	}
	m.says(out, words...)
	return out
}

func (m *machine) says(out string, words ...string) {
	m.t.Helper()
	for _, w := range words {
		if !strings.Contains(out, w) {
			m.t.Errorf("it does not say %q:\n%s", w, out)
		}
	}
}

// now lists the allocs of a job as they are.
func (m *machine) now(job string) []*api.AllocationListStub {
	m.t.Helper()
	all, _, err := m.allocs(job)(m.t.Context(), nil)
	must(m.t, err)
	return all
}

// well checks what "job run" has promised: n healthy allocs of a version, and of the versions before none that lives.
func (m *machine) well(job string, n int, version uint64) {
	m.t.Helper()
	good := 0
	for _, a := range m.now(job) {
		healthy := a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil && *a.DeploymentStatus.Healthy
		switch {
		case a.DesiredStatus == "run" && a.ClientStatus == "running" && a.JobVersion == version && healthy:
			good++
		case a.ClientStatus != "complete" && a.ClientStatus != "failed":
			m.t.Errorf("allocation %s of version %d is %s/%s, %+v", a.ID, a.JobVersion, a.DesiredStatus, a.ClientStatus,
				a.DeploymentStatus)
		}
	}
	if good != n {
		m.t.Errorf("%d healthy allocations of version %d, want %d", good, version, n)
	}
}

// TestJobRunTellsTheTruth: the exit code and the last sentence of "job run" say what is true when it ends.
func TestJobRunTellsTheTruth(t *testing.T) {
	m := newMachine(t, true)
	for _, c := range []struct {
		name string
		test func(*machine)
	}{
		{"an update that stops first", updateWithStaticPort},
		{"an update of what has a volume", updateWithVolume},
		{"a change of a system job", changeOfSystemJob},
		{"a crash after two seconds", crashAfterTwoSeconds},
		{"a failed prestart task", failedPrestart},
		{"an update of two that is well", goodUpdateOfTwo},
		{"an update of two that is not", badUpdateOfTwo},
		{"a batch job", batchJobs},
		{"the same job again", sameJobAgain},
		{"a place that comes later", placeThatComesLater},
		{"a stop", stopWaitsForTheTasks},
		{"Ctrl-C", interruptedRun},
	} {
		t.Run(c.name, func(t *testing.T) {
			mine := *m
			mine.t = t
			c.test(&mine)
		})
	}
}

func updateWithStaticPort(m *machine) {
	// The predecessor does not listen to the signal: its successor comes after its kill timeout.
	job := shell{id: "port", script: `trap '' TERM INT; while :; do sleep 0.1; done`,
		group: fmt.Sprintf("network {\n port \"p\" {\n static = %d\n}\n}", freeport.Pick(m.t))}
	m.runsTo(job.hcl(), 0, `Job "port" runs: 1 allocation, healthy`)
	job.script += " # changed"
	out := m.runsTo(job.hcl(), 0, `Job "port" updated`, "is stopping", `Job "port" runs: 1 allocation, healthy`)
	if strings.Contains(out, "Error") {
		m.t.Errorf("there is an error in it:\n%s", out)
	}
	m.well("port", 1, 1)
	m.stopJob("port")
}

func updateWithVolume(m *machine) {
	m.create("run-a", "local-csi")
	job := writer{id: "keeper", volume: "run-a"}
	fast := func() string {
		return strings.Replace(job.hcl(), "restart {", "update {\n min_healthy_time = \"1s\"\n}\nrestart {", 1)
	}
	m.runsTo(fast(), 0, `Job "keeper" runs: 1 allocation, healthy`)
	job.script = writing + " # changed"
	m.runsTo(fast(), 0, `Job "keeper" runs: 1 allocation, healthy`)
	m.well("keeper", 1, 1)
	m.stopJob("keeper")
	m.remove("run-a")
}

func changeOfSystemJob(m *machine) {
	job := shell{id: "everywhere", kind: "system", script: lasting}
	m.runsTo(job.hcl(), 0, `Job "everywhere" runs: 1 allocation, healthy`)
	job.script += " # changed"
	m.runsTo(job.hcl(), 0, `Job "everywhere" updated`, `Job "everywhere" runs: 1 allocation, healthy`)
	m.well("everywhere", 1, 1)
	m.stopJob("everywhere")
}

func crashAfterTwoSeconds(m *machine) {
	job := shell{id: "crash", script: broken, restarts: 1}
	slow := strings.Replace(job.hcl(), `"1s" }`, `"10s" }`, 1)
	m.runsTo(slow, 1, `task "t" exited with code 3`, "cannot open the door", "there is no further try",
		"Task restarting in")
	out, _ := m.cli("job", "status", "crash")
	m.says(out, `task "t" exited with code 3`, "cannot open the door", "there is no further try", "unhealthy")

	// With a replacement to come, that is reported too.
	job.id = "crash-again"
	job.again = true
	job.restarts = 0
	m.runsTo(strings.Replace(job.hcl(), `"1s" }`, `"10s" }`, 1), 1, `task "t" exited with code 3`,
		"it is placed anew in ")
	out, _ = m.cli("job", "status", "crash-again")
	m.says(out, `task "t" exited with code 3; it is placed anew in `)
	m.stopJob("crash")
	m.stopJob("crash-again")
}

func failedPrestart(m *machine) {
	job := shell{id: "prestart", script: lasting, group: `
    task "before" {
      driver = "raw_exec"
      lifecycle {
        hook    = "prestart"
        sidecar = false
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "echo no such table >&2; exit 7"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }`}
	m.runsTo(job.hcl(), 1, `task "before" exited with code 7`, "no such table", `task "before" of allocation`)
	m.stopJob("prestart")
}

func goodUpdateOfTwo(m *machine) {
	job := shell{id: "pair", count: 2, script: lasting}
	m.runsTo(job.hcl(), 0, `Job "pair" runs: 2 allocations, healthy`)
	m.well("pair", 2, 0)
	job.script += " # changed"
	m.runsTo(job.hcl(), 0, `Job "pair" runs: 2 allocations, healthy`)
	m.well("pair", 2, 1)
	m.stopJob("pair")
}

func badUpdateOfTwo(m *machine) {
	job := shell{id: "roll", count: 2, script: lasting}
	m.runsTo(job.hcl(), 0, `Job "roll" runs: 2 allocations, healthy`)
	job.script = strings.Replace(broken, "sleep 2", "sleep 0.2", 1)
	words := []string{"update stopped: allocation ", `is not healthy: task "t" exited with code 3`,
		"there is no further try (", "1 allocation goes on with the version before", "cannot open the door"}
	m.runsTo(job.hcl(), 1, words...)
	lives := 0
	for _, a := range m.now("roll") {
		if a.DesiredStatus == "run" && a.ClientStatus == "running" && a.JobVersion == 0 {
			lives++
		}
	}
	if lives != 1 {
		m.t.Errorf("%d allocations of the version before run, want 1", lives)
	}
	out, _ := m.cli("job", "status", "roll")
	m.says(out, words...)
	// Whoever asks again hears the same; and what was well before is well again.
	m.runsTo(job.hcl(), 1, append(words, `Job "roll" unchanged`)...)
	job.script = lasting
	m.runsTo(job.hcl(), 0, `Job "roll" runs: 2 allocations, healthy`)
	m.well("roll", 2, 2)
	m.stopJob("roll")
}

func batchJobs(m *machine) {
	bad := shell{id: "sums", kind: "batch", script: "echo 2 and 2 is 5 >&2; exit 3"}
	m.runsTo(bad.hcl(), 1, `task "t" exited with code 3`, "2 and 2 is 5", "there is no further try")
	m.runsTo(bad.hcl(), 1, `Job "sums" unchanged`, `Nothing was run: job "sums" failed before, at `,
		`task "t" exited with code 3`, `"berth job eval -force-reschedule sums" has it placed anew`)
	good := shell{id: "table", kind: "batch", count: 2, script: "sleep 1"}
	m.runsTo(good.hcl(), 0, `Job "table" has completed: 2 allocations`)
	m.runsTo(good.hcl(), 0, `Job "table" unchanged`, `Job "table" has completed: 2 allocations`,
		`Nothing was run: job "table" had completed before, at `)
	out, code := m.jobRun(good.hcl(), "-again")
	if code != 0 || strings.Contains(out, "Nothing was run") || len(m.now("table")) != 4 {
		m.t.Errorf("run again: exit code %d, %d allocations:\n%s", code, len(m.now("table")), out)
	}
	// A try that fails is followed by the next.
	flag := filepath.Join(m.rig, "flag")
	again := shell{
		id:       "second",
		kind:     "batch",
		restarts: 1,
		script:   fmt.Sprintf("test -e %s || { touch %s; exit 9; }", flag, flag),
	}
	m.runsTo(again.hcl(), 0, "Exit Code: 9", `Job "second" has completed: 1 allocation`)
}

func sameJobAgain(m *machine) {
	job := shell{id: "same", script: lasting}
	m.runsTo(job.hcl(), 0)
	m.runsTo(job.hcl(), 0, `Job "same" unchanged`, "running and healthy", `Job "same" runs: 1 allocation, healthy`)
	m.well("same", 1, 0)
	m.stopJob("same")
}

func placeThatComesLater(m *machine) {
	job := strings.Replace(writer{id: "later", volume: "run-later"}.hcl(), "restart {",
		"update {\n min_healthy_time = \"1s\"\n}\nrestart {", 1)
	m.runsTo(job, 2, `volume "run-later" does not exist`)
	type end struct {
		out  string
		code int
	}
	done := make(chan end, 1)
	go func() {
		out, code := m.jobRun(job, "-wait")
		done <- end{out, code}
	}()
	await(m, "the second evaluation",
		func(ctx context.Context, o *api.QueryOptions) ([]*api.Evaluation, *api.QueryMeta, error) {
			return m.api.Jobs().Evaluations(ctx, "later", o)
		}, func(all []*api.Evaluation) bool { return len(all) > 2 })
	m.create("run-later", "local-csi")
	got := <-done
	if got.code != 0 {
		m.t.Errorf("exit code %d:\n%s", got.code, got.out)
	}
	m.says(got.out, `volume "run-later" does not exist`, `Job "later" unchanged`,
		`Job "later" runs: 1 allocation, healthy`)
	m.stopJob("later")
	m.remove("run-later")
}

func stopWaitsForTheTasks(m *machine) {
	m.runsTo(shell{id: "deaf", script: `trap '' TERM INT; while :; do sleep 0.1; done`}.hcl(), 0)
	a := m.now("deaf")[0]
	pid := m.pid(a.ID, "t", "/bin/sh")
	out, code := m.cli("job", "stop", "deaf")
	if err := syscall.Kill(pid, 0); err == nil {
		m.t.Errorf("the task lives, and the job is reported to have stopped:\n%s", out)
	}
	if code != 0 {
		m.t.Errorf("exit code %d", code)
	}
	m.says(out, "is stopping: its tasks have until their kill timeouts", `Job "deaf" stopped`)
}

func interruptedRun(m *machine) {
	path := filepath.Join(m.rig, "slow.nomad.hcl")
	must(m.t, os.WriteFile(path,
		[]byte(strings.Replace(shell{id: "slow", script: lasting}.hcl(), `"1s" }`, `"60s" }`, 1)), 0o600))
	cmd := exec.Command(binary, "job", "run", path)
	cmd.Env = append(os.Environ(), "BERTH_ADDR=unix://"+m.socket())
	said := filepath.Join(m.rig, "slow.said")
	to, err := os.Create(said)
	must(m.t, err)
	defer to.Close()
	cmd.Stdout, cmd.Stderr = to, to
	must(m.t, cmd.Start())
	read := func() string {
		text, err := os.ReadFile(said)
		must(m.t, err)
		return string(text)
	}
	m.eventually("it to say that the job is registered", func() bool {
		return strings.Contains(read(), "(job modify index ")
	})
	m.running("slow", 1)
	must(m.t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err == nil {
		m.t.Error("an interrupted run succeeds")
	}
	m.says(read(), "no longer following; the work goes on", "berth job status slow")
	status, _ := m.cli("job", "status", "slow")
	m.says(status, "undecided", "it is healthy in ")
	m.stopJob("slow")
}

// TestWhatIsReleasedIsNotSaidToRun: given a volume that its plugin does not give up, when its job is stopped, then the
// tasks have ended, and what is shown is the release, until it has succeeded.
func TestWhatIsReleasedIsNotSaidToRun(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("slow", "raw_exec")
	m.create("a", "slow")
	m.run(writer{id: "db", volume: "a"}.hcl())
	a := m.running("db", 1)[0]
	m.lives(m.pid(a.ID, "write", "/bin/sh"), 0)
	p.rules("(NodeUnstage * before Unavailable)")
	out, code := m.cli("job", "stop", "-detach", "db")
	if code != 0 || strings.Contains(out, "stopped") {
		t.Errorf("exit code %d: %s", code, out)
	}
	m.eventually("the tasks to end", func() bool {
		states := m.now("db")[0].TaskStates
		return states["write"] != nil && states["write"].State == "dead"
	})
	stub := m.now("db")[0]
	if stub.ClientStatus != "running" || stub.Phase() != "releasing" {
		t.Errorf("the API says %s, %s", stub.ClientStatus, stub.Phase())
	}
	for _, command := range [][]string{{"job", "status", "db"}, {"job", "allocs", "db"}, {"alloc", "status", a.ID}} {
		out, _ := m.cli(command...)
		m.says(out, "releasing")
	}
	if out, _ := m.cli("job", "status", "db"); !strings.Contains(out, "stopped, releasing its storage") ||
		strings.Contains(out, "running (stopped)") {
		t.Errorf("a job that releases its storage:\n%s", out)
	}
	out, code = m.cli("job", "stop", "db")
	if code != 1 {
		t.Errorf("a stop whose storage is not free ended with %d", code)
	}
	m.says(out, `Job "db" stopped`, "not free yet", "releasing", `volume "a": being released; claimed`, "last error: ",
		"next try at ")
	p.rules()
	m.free("a")
	m.remove("a")
	p.atRest()
}
