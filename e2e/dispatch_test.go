package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/api"
)

const counted = `
job "counted" {
  type = "batch"
  parameterized {
    meta_required = ["n"]
  }
  group "g" {
    ephemeral_disk { size = 10 }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_META_n $NOMAD_ALLOC_ID >> %s"]
      }
      resources {
        cpu    = 1
        memory = 10
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}
`

// Given a hundred dispatches of one job, each with a token of its own and repeated until it is answered, when the agent
// is killed in the midst of them, then each has launched one job, and each of these has run to its end exactly once.
func TestAHundredDispatchesRunOnceEach(t *testing.T) {
	const many = 100
	m := prepare(t, false)
	m.start()
	file := filepath.Join(t.TempDir(), "ran")
	m.run(fmt.Sprintf(counted, file))
	dispatch := func(n int) error {
		_, _, err := m.api.Jobs().Dispatch(t.Context(), &api.JobDispatchRequest{
			JobID: "counted",
			Meta:  map[string]string{"n": strconv.Itoa(n)},
		}, &api.WriteOptions{IdempotencyToken: fmt.Sprintf("order-%d", n)})
		return err
	}
	for n := range many {
		if n == many/2 {
			m.kill()
			m.start()
		}
		must(t, dispatch(n))
		if n%10 == 0 { // an answer that was lost: who asks again launches nothing new
			must(t, dispatch(n))
		}
	}
	var counts *api.JobChildrenSummary
	m.eventually("all of them to end", func() bool {
		s, _, err := m.api.Jobs().Summary(t.Context(), "counted", nil)
		must(t, err)
		counts = s.Children
		return counts != nil && counts.Dead == many && counts.Running+counts.Pending == 0
	})
	data, err := os.ReadFile(file)
	must(t, err)
	var got []int
	ran := map[int][]string{}
	for line := range strings.Lines(string(data)) {
		number, alloc, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		must(t, err)
		got = append(got, n)
		ran[n] = append(ran[n], alloc)
	}
	slices.Sort(got)
	for n := range many {
		if n >= len(got) || got[n] != n {
			t.Fatalf("these have run: %v\nby these allocs: %v", got, ran)
		}
	}
	if len(got) != many {
		t.Errorf("%d have run, of %d", len(got), many)
	}
}

const ticking = `
job "ticking" {
  type = "batch"
  periodic {
    crons = ["* * * * * * *"]
  }
  group "g" {
    ephemeral_disk { size = 10 }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_JOB_ID >> %s"]
      }
      resources {
        cpu    = 1
        memory = 10
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}
`

// Given a job that is launched each second, when its agent is killed and comes back, then no second has been launched
// twice, and of those that were missed one was made good at most.
func TestTheClockLaunchesOnceThoughItsAgentIsKilled(t *testing.T) {
	m := prepare(t, false)
	m.start()
	file := filepath.Join(t.TempDir(), "ran")
	m.run(fmt.Sprintf(ticking, file))
	ran := func() []string {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		return strings.Fields(string(data))
	}
	m.eventually("three launches", func() bool { return len(ran()) >= 3 })
	m.kill()
	time.Sleep(4 * time.Second) // four times are missed
	before := len(ran())
	m.start()
	m.eventually("three more launches", func() bool { return len(ran()) >= before+3 })
	m.stopJob("ticking")
	var seconds []int
	for _, id := range ran() {
		_, at, _ := strings.Cut(id, "/periodic-")
		n, err := strconv.Atoi(at)
		must(t, err)
		seconds = append(seconds, n)
	}
	slices.Sort(seconds)
	if once := slices.Compact(slices.Clone(seconds)); len(once) != len(seconds) {
		t.Errorf("a second was launched twice: %v", seconds)
	}
	gap := 0
	for i := range seconds[1:] {
		gap = max(gap, seconds[i+1]-seconds[i])
	}
	if gap < 3 {
		t.Errorf("what was missed was made good one by one: %v", seconds)
	}
}
