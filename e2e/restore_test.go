package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/api"
)

// must runs a command that has to succeed, and returns what it says.
func (m *machine) must(args ...string) string {
	m.t.Helper()
	out, code := m.cli(args...)
	if code != 0 {
		m.t.Fatalf("berth %s: %d\n%s\n%s", strings.Join(args, " "), code, out, m.tail())
	}
	return out
}

// healed waits until the recovery of the servers' state has ended.
func (m *machine) healed() {
	m.t.Helper()
	m.eventually("the recovery to end", func() bool {
		r, _, err := m.api.Operator().Recovery(m.t.Context(), nil)
		must(m.t, err)
		return r.State == "ended"
	})
}

// TestSavedAndRestoredByCommand: given databases on volumes, one of them begun after the state was saved, when the
// state is restored by command, then every process goes on and the plugin is asked to change nothing; the later one is
// adopted, a snapshot that was cut later is deleted by a person, and stops and deletions work as before.
func TestSavedAndRestoredByCommand(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.create("b", "own")
	m.run(writer{id: "first", volume: "a"}.hcl())
	first := m.pid(m.running("first", 1)[0].ID, "write", "/bin/sh")
	m.lives(first, 0)
	file := filepath.Join(m.root, "saved")
	m.must("operator", "snapshot", "save", file)
	if out := m.must("operator", "snapshot", "inspect", file); !strings.Contains(out, "Incarnation") {
		t.Errorf("inspect says:\n%s", out)
	}
	m.run(writer{id: "second", volume: "b"}.hcl())
	second := m.pid(m.running("second", 1)[0].ID, "write", "/bin/sh")
	m.lives(second, 0)
	m.must("volume", "snapshot", "create", "b", "cut")
	plugin, before := p.pluginPID(), p.calls()

	quiet := p.quiet()
	m.must("operator", "snapshot", "restore", "-yes", file)
	m.orphans(1)
	m.healed()
	quiet()
	if now := p.calls(); !slices.Equal(now, before) {
		t.Errorf("calls before the restore: %v; after: %v", before, now)
	}
	if now := p.pluginPID(); now != plugin {
		t.Errorf("the plugin's process was %d and is %d", plugin, now)
	}
	m.alive("after the restore", first, second)
	m.refused("b")
	if out := m.must("volume", "status", "b"); !strings.Contains(out, "given to nobody") {
		t.Errorf("the status of a volume that an orphan has:\n%s", out)
	}
	m.adopt("second")
	m.orphans(0)
	m.lives(first, 0)
	m.lives(second, 0)
	list, _, err := m.api.Volumes().ListSnapshots(t.Context(), "own", nil, nil)
	must(t, err)
	if len(list.Snapshots) != 1 {
		t.Fatalf("the provider's snapshots are %+v", list.Snapshots)
	}
	m.must("volume", "snapshot", "delete", "own", list.Snapshots[0].ID)
	m.stopJob("first")
	m.stopJob("second")
	p.atRest("a", "b")
	m.remove("a")
	m.remove("b")
}

// bundled is the allocation that runs the bundled plugin; empty: there is none.
func (m *machine) bundled() string {
	m.t.Helper()
	all, _, err := m.api.Jobs().Allocations(m.t.Context(), "local-csi", true, &api.QueryOptions{Namespace: "berth"})
	must(m.t, err)
	for _, a := range all {
		if a.ClientStatus == api.AllocClientStatusRunning && a.DesiredStatus == api.AllocDesiredStatusRun {
			return a.ID
		}
	}
	return ""
}

// TestTheBundledPluginAfterARestoreIntoFreshServers: given a database on a volume of the bundled plugin, and an
// instance of the plugin that is newer than the saved state, when the servers are lost and the state is restored into
// new ones, then everything runs on, and the plugin serves the volume that was in use.
func TestTheBundledPluginAfterARestoreIntoFreshServers(t *testing.T) {
	m, db, other := settled(t)
	m.alarm = olderState
	file := filepath.Join(m.root, "saved")
	m.must("operator", "snapshot", "save", file)
	was := m.bundled()
	m.must("alloc", "stop", was)
	m.eventually("another instance of the plugin", func() bool {
		now := m.bundled()
		return now != "" && now != was
	})
	m.awaitPlugin("local-csi")
	key := filepath.Join(m.data, "server", "keyring", "root.key")
	saved, err := os.ReadFile(key)
	must(t, err)
	m.kill()
	must(t, os.RemoveAll(filepath.Join(m.data, "server")))
	must(t, os.MkdirAll(filepath.Dir(key), 0o700))
	must(t, os.WriteFile(key, saved, 0o600))
	m.start()
	m.orphans(3)
	m.must("operator", "snapshot", "restore", "-yes", file)
	m.must("operator", "recovery", "finish", "-yes")
	m.healed()
	m.alive("after the restore", db, other)
	if left := m.orphans(1)[0]; left.JobID != "local-csi" {
		t.Errorf("the orphan is %+v", left)
	}
	m.eventually("the servers' own instance of the plugin", func() bool { return m.bundled() != "" })
	m.awaitPlugin("local-csi")
	m.lives(db, 0)
	m.stopJob("db")
	m.free("data")
	m.endOrphans()
	m.stopJob("plain")
	m.remove("data")
}
