package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/api"
)

// script is a job with one task, a shell script that is stopped with SIGTERM.
type script struct {
	id, driver  string
	killTimeout string
	text        string
}

func (s script) hcl() string {
	return fmt.Sprintf(`
job %q {
  type = "service"
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "sh" {
      driver       = %q
      kill_timeout = %q
      kill_signal  = "SIGTERM"
      config {
        command = "/bin/sh"
        args    = ["-c", <<S
%s
S
        ]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}`, s.id, s.driver, s.killTimeout, s.text)
}

// shims lists the sockets of the machine's shims.
func (m *machine) shims() []string {
	m.t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.data, "shim"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(m.t, err)
	var out []string
	for _, e := range entries {
		if e.Type() == fs.ModeSocket {
			out = append(out, filepath.Join(m.data, "shim", e.Name()))
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestAStopWhoseAnswerIsLostEnds: given a task that is being stopped, when the agent is frozen before the answer and
// killed after it, then the next agent learns how the task ended, and the alloc is complete.
func TestAStopWhoseAnswerIsLostEnds(t *testing.T) {
	m := newMachine(t, false)
	heard := filepath.Join(m.rig, "heard")
	text := `trap "touch ` + heard + `; sleep 1; exit 0" TERM; while :; do sleep .05; done`
	m.run(script{id: "slow", driver: "raw_exec", killTimeout: "30s", text: text}.hcl())
	a := m.running("slow", 1)[0]
	pid := m.pid(a.ID, "sh", "/bin/sh")
	m.tellStop("slow")
	m.eventually("the task to get its signal", func() bool { return exists(heard) })
	must(t, m.cmd.Process.Signal(syscall.SIGSTOP))
	m.eventually("the task to end", func() bool { return !alive(pid) })
	m.settle() // the shim answers, and nobody hears it
	m.kill()
	m.start()
	ended := m.ended("slow")
	if len(ended) != 1 || ended[0].ClientStatus != api.AllocClientStatusComplete {
		t.Errorf("the alloc of the stopped job: %+v", ended[0])
	}
	if e := ended[0].TaskStates["sh"]; e == nil || e.Failed {
		t.Errorf("its task: %+v", e)
	}
	if left := m.shims(); len(left) > 0 {
		t.Errorf("shims that hold nothing: %v", left)
	}
}

// TestAKillTimeoutIsTheShims: given two deaf tasks that are being stopped, when the agent is killed, then the first is
// ended although no agent is there, and the timeout of the second does not begin anew with the next agent.
func TestAKillTimeoutIsTheShims(t *testing.T) {
	m := newMachine(t, false)
	timeouts := map[string]time.Duration{"alone": 4 * time.Second, "again": 35 * time.Second}
	pids := map[string]int{}
	for id, timeout := range timeouts {
		heard := filepath.Join(m.rig, id)
		text := `trap "touch ` + heard + `" TERM; while :; do sleep .05; done`
		m.run(script{id: id, driver: "raw_exec", killTimeout: timeout.String(), text: text}.hcl())
		pids[id] = m.pid(m.running(id, 1)[0].ID, "sh", "/bin/sh")
	}
	begun := time.Now()
	for id := range timeouts {
		m.tellStop(id)
		m.eventually("the task to get its signal", func() bool { return exists(filepath.Join(m.rig, id)) })
	}
	m.kill()
	m.eventually("the shim to end the task that does not listen", func() bool { return !alive(pids["alone"]) })
	if took := time.Since(begun); took < timeouts["alone"] {
		t.Errorf("the task was ended after %s", took)
	}
	time.Sleep(time.Until(begun.Add(timeouts["again"] - 5*time.Second))) // most of it passes without an agent
	restarted := time.Now()
	m.start()
	m.eventually("the other task to end", func() bool { return !alive(pids["again"]) })
	if now := time.Now(); now.Sub(begun) < timeouts["again"] || now.Sub(restarted) > timeouts["again"] {
		t.Errorf("it ended %s after its stop and %s after the start of the agent", now.Sub(begun), now.Sub(restarted))
	}
	for id := range timeouts {
		if ended := m.ended(id); len(ended) != 1 || ended[0].ClientStatus != api.AllocClientStatusComplete {
			t.Errorf("the alloc of job %s: %+v", id, ended[0])
		}
	}
}

// TestJobsStoppedWhileTheyStartLeaveNoShim: given many jobs, when each is stopped a moment after it was submitted, then
// their shims are gone with them, and the end of the agent finds none.
func TestJobsStoppedWhileTheyStartLeaveNoShim(t *testing.T) {
	const jobs, workers = 500, 2
	m := newMachine(t, false)
	random := rand.New(rand.NewPCG(1, 2))
	pauses := make([]time.Duration, jobs)
	for i := range pauses {
		pauses[i] = time.Duration(random.IntN(60_000)) * time.Microsecond
	}
	var wg sync.WaitGroup
	failed := make(chan error, jobs)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < jobs; i += workers {
				id := fmt.Sprintf("brief-%d", i)
				j := script{
					id:          id,
					driver:      []string{"exec", "raw_exec"}[i%2],
					killTimeout: "1s",
					text:        "exec sleep 1000",
				}
				if _, err := m.register(j.hcl()); err != nil {
					failed <- err
					continue
				}
				time.Sleep(pauses[i]) // this is the moment in which it is stopped
				if _, _, err := m.api.Jobs().Deregister(t.Context(), id, api.JobDeregisterOptions{}, nil); err != nil {
					failed <- err
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	all := await(m, "all allocs to end", m.api.Allocations().List, func(all []*api.AllocationListStub) bool {
		return !slices.ContainsFunc(all, func(a *api.AllocationListStub) bool {
			return a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusPending
		})
	})
	if len(all) < jobs/10 {
		t.Errorf("only %d allocs were placed: the test does not show much", len(all))
	}
	t.Logf("%d allocs were placed", len(all))
	if left := m.shims(); len(left) > 0 {
		t.Errorf("%d shims are left of %d allocs that have ended", len(left), len(all))
	}
	must(t, m.stop())
	if left := processesOf(m.root); len(left) > 0 {
		t.Errorf("%d processes are left after the agent's end, the first: %s", len(left), left[0])
	}
}
