package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTasksOutliveTheAgent: given stateful tasks, when the agent is killed and started again, then they have run all
// the time as the same processes, and no plugin was asked to change anything.
func TestTasksOutliveTheAgent(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.create("b", "own")
	m.run(writer{id: "first", volume: "a"}.hcl())
	m.run(writer{id: "second", volume: "b"}.hcl())
	first, second := m.running("first", 1)[0], m.running("second", 1)[0]
	pids := []int{m.pid(first.ID, "write", "/bin/sh"), m.pid(second.ID, "write", "/bin/sh")}
	m.lives(pids[0], 0)
	plugin := p.pluginPID()
	before := p.calls()

	noise := p.quiet()
	for range 2 {
		m.kill()
		p.mark("caller-crashed")
		m.lives(pids[0], 0) // without an agent
		m.start()
		m.awaitPlugin("own")
	}
	m.running("first", 1)
	m.running("second", 1)
	if now := []int{m.pid(first.ID, "write", "/bin/sh"), m.pid(second.ID, "write", "/bin/sh")}; !slices.Equal(now,
		pids) {
		t.Errorf("the tasks' processes were %v and are %v", pids, now)
	}
	if now := p.pluginPID(); now != plugin {
		t.Errorf("the plugin's process was %d and is %d", plugin, now)
	}
	m.settle()
	noise()
	if now := p.calls(); !slices.Equal(now, before) {
		t.Errorf("calls before the crashes: %v; after: %v", before, now)
	}
	if log := m.seen(pids[0], "/data/log"); strings.Count(log, "started") != 1 {
		t.Errorf("the task was started again: %q", log)
	}

	m.stopJob("first")
	m.stopJob("second")
	p.atRest("a", "b")
	m.remove("a")
	m.remove("b")
}

// settle gives the agent the time in which it would do what it must not do.
func (m *machine) settle() { time.Sleep(1500 * time.Millisecond) }

// TestPluginCrashWhileAVolumeIsInUse: given a task that writes, when the plugin is killed, then the task does not
// notice, the plugin is healthy again, and the data is what was written.
func TestPluginCrashWhileAVolumeIsInUse(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.run(writer{id: "user", volume: "a"}.hcl())
	user := m.running("user", 1)[0]
	pid := m.pid(user.ID, "write", "/bin/sh")
	m.lives(pid, 0)
	before, lives := p.calls(), p.lives()

	noise := p.quiet()
	p.crash()
	m.eventually("another run of the plugin", func() bool { return p.lives() > lives })
	m.awaitPlugin("own")
	m.lives(pid, 0)
	m.settle()
	noise()
	if now := p.calls(); !slices.Equal(now, before) {
		t.Errorf("calls before the crash: %v; after: %v", before, now)
	}
	if a := m.running("user", 1)[0]; a.ID != user.ID || a.TaskStates["write"].Restarts != 0 {
		t.Errorf("the task was touched: %+v", a)
	}

	m.stopJob("user")
	p.atRest("a")
	// What was written is read by the next user.
	m.run(writer{id: "reader", volume: "a", script: `cat /data/log /data/tick.0; sleep 600 & wait $!`}.hcl())
	m.running("reader", 1)
	reader := m.running("reader", 1)[0]
	log := m.seen(m.pid(reader.ID, "write", "/bin/sh"), "/data/log")
	if log != "started\nstopped\n" {
		t.Errorf("the volume holds %q", log)
	}
	m.stopJob("reader")
	p.atRest("a")
	m.remove("a")
}
