package e2e

import (
	"bytes"
	"context"
	bytesof "encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/api"
	"berth/internal/testkit/programs"
)

// TestAnUpdateOfPostgreSQLLosesNoCommittedRow: given the database of docs/guides/postgresql.md and somebody who writes
// rows to it one by one, when a setting of it changes and the agent is killed in the midst of that, then the database
// comes back with the setting, and has every row of which the database had said that it is committed.
func TestAnUpdateOfPostgreSQLLosesNoCommittedRow(t *testing.T) {
	const psql = "/usr/lib/postgresql/15/bin/psql"
	programs.Need(t, "postgresql-15", psql)
	m := sampled(t)
	m.filesOf("guides/postgresql.md")
	m.guide("guides/postgresql.md", "Run it")
	file := filepath.Join(m.root, "pg.nomad.hcl")
	first := m.running("pg", 1)[0]
	var port atomic.Int64
	port.Store(m.portOf(first.ID))
	sql := func(ctx context.Context, text string) (string, error) {
		out, err := exec.CommandContext(ctx, psql, "-h", "127.0.0.1", "-p", strconv.FormatInt(port.Load(), 10),
			"-U", "postgres", "-tA", "-c", text).Output()
		return strings.TrimSpace(string(out)), err
	}
	_, err := sql(t.Context(), "create table kept (n int primary key)")
	must(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	committed := make(chan []int)
	go func() {
		var out []int
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := sql(ctx, fmt.Sprintf("insert into kept values (%d)", n)); err == nil {
				out = append(out, n)
			}
		}
		committed <- out
	}()
	time.Sleep(time.Second) // rows of before the update
	m.must("job", "run", "-detach", "-var", "buffers=32MB", file)
	m.eventually("the old database to be told to stop", func() bool {
		a, _, err := m.api.Allocations().Get(t.Context(), first.ID, nil)
		must(t, err)
		return a.DesiredStatus == api.AllocDesiredStatusStop
	})
	m.kill()
	m.start()
	var second string
	m.eventually("the new database to run", func() bool {
		for _, a := range m.now("pg") {
			if a.ID != first.ID && a.ClientStatus == api.AllocClientStatusRunning {
				second = a.ID
				return true
			}
		}
		return false
	})
	port.Store(m.portOf(second))
	m.eventually("it to take connections", func() bool {
		got, err := sql(t.Context(), "show shared_buffers")
		return err == nil && got == "32MB"
	})
	time.Sleep(time.Second) // rows of after the update
	cancel()
	rows := <-committed
	text, err := sql(t.Context(), "select n from kept")
	must(t, err)
	has := map[string]bool{}
	for _, n := range strings.Fields(text) {
		has[n] = true
	}
	lost := slices.DeleteFunc(slices.Clone(rows), func(n int) bool { return has[strconv.Itoa(n)] })
	if len(rows) < 10 || len(lost) > 0 {
		t.Errorf("of %d committed rows these are lost: %v", len(rows), lost)
	}
	m.must("job", "stop", "pg")
	m.must("volume", "delete", "-wait", "1m", "pg")
	m.guide("guides/install.md", "Remove")
}

// portOf is the one port of an alloc.
func (m *machine) portOf(alloc string) int64 {
	m.t.Helper()
	a, _, err := m.api.Allocations().Get(m.t.Context(), alloc, nil)
	must(m.t, err)
	if ports := a.AllocatedResources.Shared.Ports; len(ports) == 1 {
		return int64(ports[0].Value)
	}
	m.t.Fatalf("the ports are %+v", a.AllocatedResources.Shared.Ports)
	return 0
}

const tried = `
job "tried" {
  group "g" {
    update {
      canary            = 1
      auto_revert       = true
      min_healthy_time  = "5s"
      healthy_deadline  = "30s"
      progress_deadline = "0s"
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "%s"]
      }
    }
  }
}
`

// TestACanaryThatFailsIsGoneBackFromThoughTheAgentIsKilled: given a service that works, when a version is tried by a
// canary, and the agent is killed while that runs and fails, then the deployment fails, the job says again what it said
// before, and the allocation of before has run all the time.
func TestACanaryThatFailsIsGoneBackFromThoughTheAgentIsKilled(t *testing.T) {
	m := newMachine(t, false)
	m.run(fmt.Sprintf(tried, "exec sleep 100000"))
	before := m.running("tried", 1)[0]
	deployment := func(of uint64, status string) {
		t.Helper()
		m.eventually("a deployment of version "+strconv.FormatUint(of, 10)+" that is "+status, func() bool {
			list, _, err := m.api.Jobs().Deployments(t.Context(), "tried", true, nil)
			must(t, err)
			return slices.ContainsFunc(list, func(d *api.Deployment) bool {
				return d.JobVersion == of && d.Status == status
			})
		})
	}
	deployment(0, api.DeploymentStatusSuccessful)
	m.run(fmt.Sprintf(tried, "sleep 2; exit 1"))
	m.eventually("the canary to run", func() bool {
		return slices.ContainsFunc(m.now("tried"), func(a *api.AllocationListStub) bool {
			return a.ID != before.ID && a.ClientStatus == api.AllocClientStatusRunning
		})
	})
	m.kill()
	time.Sleep(3 * time.Second) // it fails unseen
	m.start()
	deployment(1, api.DeploymentStatusFailed)
	m.eventually("the job to say what it said before", func() bool {
		job, _, err := m.api.Jobs().Get(t.Context(), "tried", nil)
		must(t, err)
		return *job.Version == 2 && strings.Contains(fmt.Sprint(job.TaskGroups[0].Tasks[0].Config["args"]), "100000")
	})
	deployment(2, api.DeploymentStatusSuccessful)
	after := m.running("tried", 1)[0]
	if after.ID != before.ID || !after.TaskStates["t"].StartedAt.Equal(*before.TaskStates["t"].StartedAt) {
		t.Errorf("the allocation of before is %s, was %s: %+v", after.ID, before.ID, after.TaskStates["t"])
	}
	m.stopJob("tried")
}

const jumped = `
job "jumped" {
  type = "batch"
  periodic {
    crons     = ["30 2 * * *"]
    time_zone = "Test/Town"
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_JOB_ID >> %s"]
      }
    }
  }
}
`

// zone is a time zone in the form of RFC 9636 whose clocks go from two to three at a moment.
func zone(at time.Time) []byte {
	var out bytes.Buffer
	out.WriteString("TZif\x00" + strings.Repeat("\x00", 15))
	before := int32(2*60*60 - at.Unix()%(24*60*60))
	for _, v := range []any{
		[]uint32{0, 0, 0, 1, 2, 8}, // one change, two types, eight bytes of names
		int32(at.Unix()), uint8(1),
		before, uint8(0), uint8(0),
		before + 60*60, uint8(1), uint8(4),
	} {
		_ = bytesof.Write(&out, bytesof.BigEndian, v) // into memory
	}
	out.WriteString("AAA\x00BBB\x00")
	return out.Bytes()
}

// TestATimeThatClocksJumpOverLaunchesOnce: given a job of half past two in a place whose clocks go from two to three in
// a moment, when the agent is killed just before that and comes back after it, then the job has been launched once, as
// of the change; and not again when the agent is killed once more.
func TestATimeThatClocksJumpOverLaunchesOnce(t *testing.T) {
	m := prepare(t, false)
	zones, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	m.env = []string{"ZONEINFO=" + zones}
	must(t, os.Mkdir(filepath.Join(zones, "Test"), 0o755))
	change := time.Now().Add(15 * time.Second).Truncate(time.Second)
	must(t, os.WriteFile(filepath.Join(zones, "Test", "Town"), zone(change), 0o600))
	m.start()
	m.run(fmt.Sprintf(jumped, ran))
	if left := time.Until(change); left < time.Second {
		t.Skipf("the agent took so long to start that %s were left before the change", left)
	}
	time.Sleep(time.Until(change.Add(-time.Second)))
	m.kill()
	time.Sleep(time.Until(change.Add(time.Second)))
	m.start()
	launches := func() []string {
		text, err := os.ReadFile(ran)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
	m.eventually("the launch", func() bool { return len(launches()) > 0 })
	m.kill()
	m.start()
	time.Sleep(2 * time.Second) // another one would have come
	want := fmt.Sprintf("jumped/periodic-%d", change.Unix())
	if got := launches(); !slices.Equal(got, []string{want}) {
		t.Errorf("launched is %q, want %q once", got, want)
	}
	m.stopJob("jumped")
}
