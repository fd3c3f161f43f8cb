package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestAnUpgradeTouchesNothing: given volumes, their users and a plugin under an earlier program, when this program
// takes over its data directory, then every process goes on, no plugin is asked to change anything, and what was begun
// under the one is ended under the other. The earlier program is named in BERTH_EARLIER: "make upgrade" builds one.
func TestAnUpgradeTouchesNothing(t *testing.T) {
	earlier := os.Getenv("BERTH_EARLIER")
	if earlier == "" {
		t.Skip("BERTH_EARLIER names no earlier program: make upgrade builds one and runs this")
	}
	m := prepare(t, false)
	m.earlier = earlier
	m.start()
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.create("b", "own")
	m.create("idle", "own")
	m.run(writer{id: "first", volume: "a"}.hcl())
	m.run(writer{id: "second", volume: "b"}.hcl())
	first, second := m.running("first", 1)[0], m.running("second", 1)[0]
	pids := []int{m.pid(first.ID, "write", "/bin/sh"), m.pid(second.ID, "write", "/bin/sh")}
	m.lives(pids[0], 0)
	plugin, before := p.pluginPID(), p.calls()

	quiet := p.quiet()
	m.kill()
	p.mark("caller-crashed")
	m.earlier = ""
	// Tasks that named no user were root under earlier programs, and what they have written is root's.
	m.append(`
plugin "exec" {
  config {
    default_user = "root"
    denied_users = []
  }
}
`)
	m.start()
	m.awaitPlugin("own")
	m.lives(pids[0], 0)
	m.settle()
	quiet()
	if now := p.calls(); !slices.Equal(now, before) {
		t.Errorf("calls before the upgrade: %v; after: %v", before, now)
	}
	if now := p.pluginPID(); now != plugin {
		t.Errorf("the plugin's process was %d and is %d", plugin, now)
	}
	now := []int{m.pid(first.ID, "write", "/bin/sh"), m.pid(second.ID, "write", "/bin/sh")}
	if !slices.Equal(now, pids) {
		t.Errorf("the tasks' processes were %v and are %v", pids, now)
	}

	m.stopJob("first")
	p.atRest("a")
	m.run(writer{id: "third", volume: "a"}.hcl())
	third := m.running("third", 1)[0]
	m.lives(m.pid(third.ID, "write", "/bin/sh"), 0)
	m.stopJob("second")
	m.stopJob("third")
	p.atRest("a", "b")
	m.remove("a")
	m.remove("b")
	m.remove("idle")
}

// TestAnUpgradeBringsItsPlugin: given an agent in service with the bundled plugin, when its program is replaced by
// another one that names the same version, and the agent restarted, then the plugin runs as the new program; and when
// the agent is restarted once more, then the plugin goes on.
func TestAnUpgradeBringsItsPlugin(t *testing.T) {
	m := prepare(t, true)
	program, err := os.ReadFile(binary)
	must(t, err)
	m.earlier = filepath.Join(m.rig, "berth")
	must(t, os.WriteFile(m.earlier, program, 0o755))
	m.start()
	m.awaitPlugin("local-csi")

	m.kill()
	must(t, os.WriteFile(m.earlier+".new", append(program, 0), 0o755)) // it does the same, and is another
	must(t, os.Rename(m.earlier+".new", m.earlier))
	m.start()
	plugin := func() (pids []int) {
		for _, p := range processes(func(p process) bool { return slices.Contains(p.args, m.data+"/volumes") }) {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid)); err == nil && exe == m.earlier {
				pids = append(pids, p.pid)
			}
		}
		return pids
	}
	m.eventually("the plugin to be the new program", func() bool { return len(plugin()) == 1 })
	m.awaitPlugin("local-csi")
	before := plugin()
	m.kill()
	m.start()
	m.awaitPlugin("local-csi")
	m.settle()
	if now := plugin(); !slices.Equal(now, before) {
		t.Errorf("the plugin was %v, and after a restart of the same program it is %v", before, now)
	}
}
