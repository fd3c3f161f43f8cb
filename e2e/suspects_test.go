package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"berth/api"
)

// TestACrashingAgentLeavesTheAllocThatItDiesOf: given an alloc that the agent has just taken up when it dies, three
// times in a row, then the next run leaves it as it is, with the reason and the way out, and serves others; its task
// lives on. A person has it taken up again, and it ends as any other.
func TestACrashingAgentLeavesTheAllocThatItDiesOf(t *testing.T) {
	m := prepare(t, false)
	m.window, m.alarm = "1h", "an allocation is not taken up"
	m.start()
	m.run(hungry("guilty", "raw_exec", "exec sleep 1000"))
	a := m.running("guilty", 1)[0]
	pid := m.pid(a.ID, "t", "sleep")
	for n := range 2 {
		m.crash()
		m.start()
		m.eventually("it to be taken up once more", func() bool {
			data, err := os.ReadFile(m.logPath())
			must(t, err)
			return strings.Count(string(data), "a suspected allocation is taken up") > n
		})
	}
	m.crash()
	m.start()
	m.kill() // a person's kill neither counts nor pardons
	m.start()
	says := func(words ...string) func() bool {
		return func() bool {
			out, code := m.cli("alloc", "status", a.ID)
			text := strings.Join(strings.Fields(out), " ")
			for _, w := range words {
				if !strings.Contains(text, w) {
					return false
				}
			}
			return code == 0
		}
	}
	m.eventually("the reason to be shown", says("The last 3 runs of the agent crashed", "Not Taken Up",
		"berth alloc restart "+a.ID[:8]))
	m.run(hungry("other", "raw_exec", "exec sleep 1000"))
	m.running("other", 1)
	if out, code := m.cli("alloc", "signal", "-s", "SIGTERM", a.ID); code == 0 || !strings.Contains(out, "taken up") {
		t.Errorf("it takes signals: %s", out)
	}
	m.stopJob("other")
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("its task does not live: %v", err)
	}

	if out, code := m.cli("alloc", "restart", a.ID); code != 0 {
		t.Fatalf("it is not taken up again: %s", out)
	}
	await(m, "the reason to be gone", m.allocs("guilty"), func(all []*api.AllocationListStub) bool {
		return len(all) == 1 && !strings.Contains(all[0].ClientDescription, "died within")
	})
	if now := m.pid(a.ID, "t", "sleep"); now != pid {
		t.Errorf("its task was process %d and is %d", pid, now)
	}
	m.stopJob("guilty")
}
