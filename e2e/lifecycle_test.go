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

// ordered is a group with a task in every place of the lifecycle; each writes down when it begins and when it ends.
// A task that goes on ends with its signal, and one that does not waits for the file go.
const ordered = `
job "ordered" {
  group "g" {
    restart { attempts = 0 }
%s
  }
}
`

const orderedTask = `
    task "%[1]s" {
      driver       = "exec"
      kill_timeout = "20s"
      %[2]s
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          say() { echo $1 %[1]s >> ../alloc/order; }
          trap 'say end; exit 0' TERM INT
          say begin
          %[3]s
        EOT
        ]
      }
      resources { memory = 20 }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
`

// goesOn is a task that goes on, and endsNow one that ends by itself.
const (
	goesOn  = `while :; do sleep 0.05; done`
	endsNow = `say end`
)

func orderedJob() string {
	var tasks strings.Builder
	for _, t := range []struct{ name, lifecycle, does string }{
		{"clean", `lifecycle { hook = "poststop" }`, endsNow},
		{"log", "lifecycle {\n hook = \"poststart\"\n sidecar = true\n }", goesOn},
		{"hello", `lifecycle { hook = "poststart" }`, endsNow},
		{"work", "", goesOn},
		{"lead", "leader = true", goesOn},
		{"proxy", "lifecycle {\n hook = \"prestart\"\n sidecar = true\n }", goesOn},
		{"init", `lifecycle { hook = "prestart" }`, "sleep 0.3; " + endsNow},
	} {
		fmt.Fprintf(&tasks, orderedTask, t.name, t.lifecycle, t.does)
	}
	return fmt.Sprintf(ordered, tasks.String())
}

// follows is what each line of the order comes after, in the same round.
var follows = map[string][]string{
	"begin work":  {"end init", "begin proxy"},
	"begin lead":  {"end init", "begin proxy"},
	"begin hello": {"begin work", "begin lead"},
	"begin log":   {"begin work", "begin lead"},
	"end work":    {"end lead"},
	"end log":     {"end work"},
	"end proxy":   {"end work"},
	"begin clean": {"end log", "end proxy", "end work", "end lead"},
}

// judge holds one round of an order against the rules, and expects these lines and no others.
func judge(t *testing.T, round []string, lines ...string) {
	t.Helper()
	if got := slices.Sorted(slices.Values(round)); !slices.Equal(got, slices.Sorted(slices.Values(lines))) {
		t.Fatalf("the round has %q, want %q in some order", round, lines)
	}
	for i, line := range round {
		for _, before := range follows[line] {
			if slices.Contains(round, before) && slices.Index(round, before) > i {
				t.Errorf("%q comes before %q: %q", line, before, round)
			}
		}
	}
}

var roundBegins = []string{"begin init", "end init", "begin proxy", "begin work", "begin lead", "begin hello",
	"end hello", "begin log"}

var roundEnds = []string{"end lead", "end work", "end log", "end proxy"}

// Given a group with a task in every place of the lifecycle, when it starts, when all of it is told to run anew (and
// its agent is killed at once), when one task is restarted, and when it is stopped, then the processes come and go in
// the order of the lifecycle.
func TestProcessesComeAndGoInTheOrderOfTheLifecycle(t *testing.T) {
	m := prepare(t, false)
	m.start()
	m.run(orderedJob())
	id := m.running("ordered", 1)[0].ID
	at := filepath.Join(m.data, "alloc", id, "alloc", "order")
	seen := 0
	// next waits until so many more lines are there, and returns them.
	next := func(n int, what string) []string {
		t.Helper()
		var lines []string
		m.eventually(what, func() bool {
			data, err := os.ReadFile(at)
			if err != nil {
				return false
			}
			lines = strings.Split(strings.TrimSpace(string(data)), "\n")
			return len(lines) >= seen+n
		})
		lines = lines[seen:]
		seen += len(lines)
		return lines
	}
	judge(t, next(len(roundBegins), "the group has begun"), roundBegins...)

	m.mustCLI("alloc", "restart", "-all-tasks", id)
	m.kill()
	m.start()
	round := next(len(roundEnds)+len(roundBegins), "the group has run anew")
	judge(t, round[:len(roundEnds)], roundEnds...)
	judge(t, round[len(roundEnds):], roundBegins...)

	m.mustCLI("alloc", "restart", id, "work")
	judge(t, next(2, "the task has restarted"), "end work", "begin work")
	// A task that is to end before its agent has heard that it runs is ended without a word to it.
	await(m, "the task to be known to run", m.allocs("ordered"), func(all []*api.AllocationListStub) bool {
		events := all[0].TaskStates["work"].Events
		return events[len(events)-1].Type == "Started"
	})

	m.stopJob("ordered")
	end := append(slices.Clone(roundEnds), "begin clean", "end clean")
	judge(t, next(len(end), "the group has ended"), end...)
}
