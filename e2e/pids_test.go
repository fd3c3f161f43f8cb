package e2e

import (
	"strings"
	"testing"
)

// TestAJobSaysHowManyProcessesItsTaskMayHave: the number goes all the way from the job file to the task's group.
func TestAJobSaysHowManyProcessesItsTaskMayHave(t *testing.T) {
	m := prepare(t, false)
	m.start()
	job := shellJob("few", "exec", "cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max; "+
		"echo read; exec sleep 1000", "")
	m.run(strings.Replace(job, "memory = 32", "memory = 32\n        pids   = 12", 1))
	a := m.running("few", 1)[0]
	m.eventually("the task to read its limit", func() bool { return strings.Contains(m.output(a.ID), "read") })
	if got := m.output(a.ID); got != "12\nread\n" {
		t.Errorf("it may have %q processes", got)
	}
	m.stopJob("few")
}
