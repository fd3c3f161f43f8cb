package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/api"
)

const slowToEnd = `
job "slow" {
  group "g" {
    count = 3
    ephemeral_disk { size = 10 }
    task "t" {
      driver       = "raw_exec"
      kill_timeout = "20s"
      config {
        command = "/bin/sh"
        args = ["-c", "trap 'sleep 1; echo end $NOMAD_ALLOC_INDEX >>%s; exit 0' INT; echo start $NOMAD_ALLOC_INDEX >>%s; while :; do sleep 0.05; done"]
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
    restart { delay = "1s" }
    update { max_parallel = 0 }
  }
}
`

// Given a job of three tasks that need a while to end, when it is restarted one by one, then each runs again before the
// next one ends: two of three run at any time.
func TestAJobIsRestartedOneAfterAnother(t *testing.T) {
	m := prepare(t, false)
	m.start()
	file := filepath.Join(t.TempDir(), "ran")
	m.run(fmt.Sprintf(slowToEnd, file, file))
	lines := func() []string {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	m.eventually("all three to run", func() bool {
		all, _, err := m.api.Jobs().Allocations(t.Context(), "slow", false, nil)
		must(t, err)
		return len(lines()) == 3 && len(all) == 3 && !slices.ContainsFunc(all, func(a *api.AllocationListStub) bool {
			return a.ClientStatus != api.AllocClientStatusRunning
		})
	})
	out := m.shell("berth job restart -yes -batch-size 1 slow")
	if !strings.Contains(out, "All 3 allocations were restarted") {
		t.Errorf("it says %s", out)
	}
	m.eventually("the last one to run", func() bool { return len(lines()) == 9 })
	var want []string
	for i := range 3 {
		want = append(want, fmt.Sprint("end ", i), fmt.Sprint("start ", i))
	}
	if got := lines()[3:]; !slices.Equal(got, want) {
		t.Errorf("it went %q, want %q", got, want)
	}
}
