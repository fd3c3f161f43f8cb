package client_test

import (
	"strings"
	"testing"

	"berth/internal/client"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Given a node whose agent caps processes, when servers that do not know place a task there that asks for more, then it
// fails by both numbers, and one that asks for as many runs.
func TestTheNodesCapsReachItsTasks(t *testing.T) {
	r := newRig(t)
	r.tune = func(c *client.Config) { c.Caps = driver.Caps{PIDs: 500} }
	r.start()
	asking := func(pids int) *job.Task {
		out := task("web", nil)
		out.Resources = &job.Resources{PIDs: pids}
		return out
	}
	refused, runs := r.servers.place(service(asking(501))), r.servers.place(service(asking(500)))
	eventually(t, "one runs", func() bool { return r.servers.status(runs) == alloc.ClientRunning })
	eventually(t, "one fails", func() bool { return r.servers.status(refused) == alloc.ClientFailed })
	said := ""
	for _, e := range r.servers.report(refused).TaskStates["web"].Events {
		said += e.DisplayMessage + "\n"
	}
	if !strings.Contains(said, "501 processes") || !strings.Contains(said, "at most 500") {
		t.Errorf("it fails by\n%s", said)
	}
}
