package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/conformance/csi/proxy"
)

// inTemp starts a -dev agent in a directory of its own, below a home that has no other.
func inTemp(t *testing.T) (m *machine, home, made string) {
	t.Helper()
	m = prepare(t, true)
	home = filepath.Join(m.root, "t")
	must(t, os.Mkdir(home, 0o700))
	m.temp, m.env = true, []string{"TMPDIR=" + home}
	m.start()
	all, err := filepath.Glob(filepath.Join(home, "berth-*"))
	if err != nil || len(all) != 1 {
		t.Fatalf("data directories: %v, %v", all, err)
	}
	return m, home, all[0]
}

// TestInterruptLeavesNothing: given a -dev agent in a directory of its own with tasks and volumes in use, when it is
// interrupted, then it ends by itself, and its directory is gone with everything else.
func TestInterruptLeavesNothing(t *testing.T) {
	m, home, made := inTemp(t)
	m.data = made
	m.awaitPlugin("local-csi")
	m.create("a", "local-csi", "multi-node-multi-writer")
	m.run(writer{id: "users", volume: "a", count: 2, access: "multi-node-multi-writer"}.hcl())
	users := m.running("users", 2)
	for _, u := range users {
		m.lives(m.pid(u.ID, "write", "/bin/sh"), index(u))
	}
	// A task that does not listen gets its kill timeout, and no more.
	m.create("b", "local-csi")
	m.run(writer{
		id:     "deaf",
		volume: "b",
		script: `trap '' TERM INT; while :; do date > /data/tick.0; sleep 0.1; done`,
	}.hcl())
	deaf := m.running("deaf", 1)[0]
	m.lives(m.pid(deaf.ID, "write", "/bin/sh"), 0)

	before := processesOf(m.root)
	if len(before) < 8 { // agent, plugin, three tasks, their shims
		t.Errorf("the test does not see the processes that it looks for later: %v", before)
	}
	grace := time.NewTimer(4 * time.Second) // most of the longest kill timeout
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-grace.C:
	default:
		t.Error("the stop did not wait for a task within its kill timeout")
	}
	if left := leftovers(m); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("the temporary directory was not removed: %v, %v", entries, err)
	}
}

// TestASecondInterruptLeavesNothingThatNobodyFinds: given a -dev agent in a directory of its own with a storage plugin
// and a task that does not listen, when it is interrupted twice, then it does not wait, and no process and no directory
// of it is left: no later agent would find them.
func TestASecondInterruptLeavesNothingThatNobodyFinds(t *testing.T) {
	m, home, made := inTemp(t)
	m.data = made
	m.awaitPlugin("local-csi")
	m.run(strings.Replace(shellJob("deaf", "raw_exec",
		"trap 'echo heard' TERM INT; echo deaf; while :; do sleep 0.1; done", ""),
		"driver =", "kill_timeout = \"25s\"\n      driver =", 1))
	deaf := m.running("deaf", 1)[0]
	m.eventually("the task not to listen", func() bool { return strings.Contains(m.output(deaf.ID), "deaf") })
	if before := processesOf(m.root); len(before) < 5 { // agent, plugin, task, their shims
		t.Errorf("the test does not see the processes that it looks for later: %v", before)
	}
	must(t, m.cmd.Process.Signal(os.Interrupt))
	m.eventually("the task to be asked to end", func() bool { return strings.Contains(m.output(deaf.ID), "heard") })
	if err := m.stop(); err == nil {
		t.Error("an agent that did not end its tasks in their time reports success")
	}
	if left := leftovers(m); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("the temporary directory was not removed: %v, %v", entries, err)
	}
	m.data = filepath.Join(m.root, "d")
}

// TestADevelopmentAgentTellsOfOneThatWasKilled: given a -dev agent in a directory of its own that was killed, when
// another one is started, then its log names that directory and the command; and when that is run and interrupted, then
// what ran of the first one has ended.
func TestADevelopmentAgentTellsOfOneThatWasKilled(t *testing.T) {
	m, _, made := inTemp(t)
	m.run(shellJob("runs", "raw_exec", "while :; do sleep 0.1; done", ""))
	m.running("runs", 1)
	named := func() bool {
		text, err := os.ReadFile(m.logPath())
		must(t, err)
		return strings.Contains(string(text), "berth agent -dev -data-dir "+made)
	}
	if named() {
		t.Error("the first agent tells of its own directory")
	}
	m.kill()
	m.start()
	if !named() {
		t.Error("the log of the second agent does not say how to end what the first one has left")
	}
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	if len(processesOf(m.root)) == 0 {
		t.Fatal("the second agent has ended what the first one left, or the test does not see it")
	}
	m.temp, m.data = false, made
	m.start()
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(m); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	m.data = filepath.Join(m.root, "d")
}

// TestSecondAgentOnOneDirectory is refused, in words, and disturbs nothing.
func TestSecondAgentOnOneDirectory(t *testing.T) {
	m := newMachine(t, true)
	m.create("a", "local-csi")
	m.run(writer{id: "user", volume: "a"}.hcl())
	user := m.running("user", 1)[0]
	second := exec.Command(binary, "agent", "-dev", "-data-dir", m.data, "-http-port", "1")
	out, err := second.CombinedOutput()
	if err == nil {
		t.Fatal("a second agent ran on the same data_dir")
	}
	for _, word := range []string{"Error:", m.data, "agent"} {
		if !strings.Contains(string(out), word) {
			t.Errorf("the refusal does not say %q: %s", word, out)
		}
	}
	m.lives(m.pid(user.ID, "write", "/bin/sh"), 0)
	m.stopJob("user")
	m.remove("a")
}

// TestAPluginThatNeverAnswers: given a plugin that hangs, then a volume of it waits and says so, other volumes work,
// the agent stops in time, and its next run ends what was begun.
func TestAPluginThatNeverAnswers(t *testing.T) {
	m := newMachine(t, true)
	p := m.localPlugin("slow", "raw_exec")
	m.create("a", "slow")
	m.create("b", "local-csi")
	p.rules("(NodeStage * hang)")
	m.run(writer{id: "waits", volume: "a"}.hcl())
	m.eventually("the call that hangs", func() bool {
		return slices.ContainsFunc(p.entries(), func(e proxy.Entry) bool { return e.RPC == "NodeStageVolume" })
	})

	m.run(writer{id: "works", volume: "b"}.hcl())
	works := m.running("works", 1)[0]
	m.lives(m.pid(works.ID, "write", "/bin/sh"), 0)
	m.create("c", "local-csi")
	all, _, err := m.api.Jobs().Allocations(t.Context(), "waits", true, nil)
	must(t, err)
	if len(all) != 1 || all[0].ClientStatus != "pending" {
		t.Errorf("the job of the hanging plugin: %+v", all)
	}
	full, _, err := m.api.Allocations().Get(t.Context(), all[0].ID, nil)
	must(t, err)
	if len(full.Storage) != 1 || !strings.Contains(full.Storage[0].State, "stage") {
		t.Errorf("the alloc does not say what it waits for: %+v", full.Storage)
	}
	m.stopJob("works")
	m.remove("b")
	m.remove("c")

	if err := m.stop(); err == nil {
		t.Error("the agent did not say that something could not be released")
	}
	if left := processesOf(m.root); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	p.rules()
	p.mark("caller-crashed")
	m.start()
	m.awaitPlugin("slow")
	m.tellStop("waits")
	m.remove("a")
	p.atRest()
}

// TestStartAgainAfterAnInterrupt: given a -dev agent on a directory that stays, when it is interrupted and started
// again, then its jobs run again at once, with their data.
func TestStartAgainAfterAnInterrupt(t *testing.T) {
	m := newMachine(t, true)
	m.create("a", "local-csi")
	m.run(writer{id: "user", volume: "a"}.hcl())
	first := m.running("user", 1)[0]
	m.lives(m.pid(first.ID, "write", "/bin/sh"), 0)
	must(t, m.stop())
	if left := leftovers(m); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	m.start()
	m.awaitPlugin("local-csi")
	again := m.running("user", 1)[0]
	pid := m.pid(again.ID, "write", "/bin/sh")
	m.lives(pid, 0)
	if log := m.seen(pid, "/data/log"); log != "started\nstopped\nstarted\n" {
		t.Errorf("the volume tells: %q", log)
	}
	m.stopJob("user")
	m.remove("a")
}
