package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/api"
)

// olderState is in the alarm that a node raises which has seen more than the servers' state contains.
const olderState = "a history of the servers that their state does not contain"

// plain is a job without storage.
func plain(id string) string {
	return `job "` + id + `" {
  group "g" {
    update { min_healthy_time = "100ms" }
    task "sleep" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}
`
}

// settled is a machine with a database on a volume and a job without one; it returns their processes.
func settled(t *testing.T) (m *machine, onVolume, without int) {
	t.Helper()
	m = newMachine(t, true)
	m.create("data", "local-csi")
	m.run(writer{id: "db", volume: "data"}.hcl())
	m.run(plain("plain"))
	onVolume = m.pid(m.running("db", 1)[0].ID, "write", "/bin/sh")
	without = m.pid(m.running("plain", 1)[0].ID, "sleep", "/bin/sleep")
	return m, onVolume, without
}

// alive fails the test unless both processes are.
func (m *machine) alive(when string, pids ...int) {
	m.t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err != nil {
			m.t.Fatalf("%s: process %d is gone: %v\n%s", when, pid, err, m.tail())
		}
	}
}

// orphans waits until the node lists so many, and returns them.
func (m *machine) orphans(n int) []*api.NodeOrphan {
	m.t.Helper()
	all := await(m, "the node to list its orphans", m.api.Nodes().List, func(all []*api.NodeListStub) bool {
		return len(all) > 0 && all[0].Orphans == n
	})
	node, _, err := m.api.Nodes().Get(m.t.Context(), all[0].ID, nil)
	must(m.t, err)
	return node.Orphans
}

// reported fails the test unless "node status" and the log report the orphans.
func (m *machine) reported(n int) {
	m.t.Helper()
	out, _ := m.cli("node", "status")
	if want := strconv.Itoa(n) + " allocations are kept here about which nobody decides"; !strings.Contains(out, want) {
		m.t.Errorf("node status does not say %q:\n%s", want, out)
	}
	if !m.logged("WARN", "kept") {
		m.t.Error("no warning in the log")
	}
}

// refused fails the test unless the volume's deletion is, naming what holds it.
func (m *machine) refused(volume string) {
	m.t.Helper()
	out, code := m.cli("volume", "delete", volume)
	if code == 0 || !strings.Contains(out, "in use") {
		m.t.Fatalf("a volume in use: deletion ended with %d:\n%s", code, out)
	}
}

// recovers says what a person says about servers that were put back, and waits until every node was heard.
func (m *machine) recovers(state string) {
	m.t.Helper()
	status := func() *api.RecoveryStatus {
		m.t.Helper()
		r, _, err := m.api.Operator().Recovery(m.t.Context(), nil)
		must(m.t, err)
		return r
	}
	if r := status(); r.State != state || len(r.Exits) == 0 {
		m.t.Fatalf("the servers say %+v", r)
	}
	for _, verb := range []string{"begin", "finish"} {
		if out, code := m.cli("operator", "recovery", verb, "-yes"); code != 0 {
			m.t.Fatalf("recovery %s: %d\n%s", verb, code, out)
		}
	}
	m.eventually("the recovery to end", func() bool { return status().State == "ended" })
	if out, code := m.cli("operator", "recovery", "status"); code != 0 || !strings.Contains(out, "ended") {
		m.t.Errorf("the status: %d\n%s", code, out)
	}
}

func (m *machine) endOrphans() {
	m.t.Helper()
	if out, code := m.cli("node", "orphans", "end", "-all", "-yes"); code != 0 {
		m.t.Fatalf("ending the orphans: %d\n%s\n%s", code, out, m.tail())
	}
	if out, _ := m.cli("node", "orphans", "list"); !strings.Contains(out, "No orphans") {
		m.t.Errorf("left: %s", out)
	}
}

// TestServersWithoutStateEndNothing: given running tasks, when the servers' directory is deleted under them, then they
// run on, are reported, and the volume that one uses cannot be deleted, by whichever name it is found.
func TestServersWithoutStateEndNothing(t *testing.T) {
	m, db, other := settled(t)
	m.alarm = olderState
	before := m.volume("data", "be known", func(*api.CSIVolume) bool { return true })
	m.kill()
	must(t, os.RemoveAll(filepath.Join(m.data, "server")))
	m.start()
	m.orphans(3) // and the bundled plugin
	m.reported(3)
	m.alive("on emptied servers", db, other)

	file := filepath.Join(m.root, "found.hcl")
	must(t, os.WriteFile(file, []byte(`id = "found"
name = "found"
type = "csi"
plugin_id = "local-csi"
external_id = "`+before.ExternalID+`"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`), 0o600))
	m.eventually("the volume to be registered anew", func() bool {
		_, code := m.cli("volume", "register", file)
		return code == 0
	})
	m.refused("found")
	m.kill() // also after a restart, under the servers that it does not follow
	m.start()
	m.orphans(3)
	m.refused("found")
	m.alive("after another restart", db, other)

	m.endOrphans()
	m.awaitPlugin("local-csi") // the node follows its servers now
	if log := m.dataOf("found"); !strings.Contains(log, "started") {
		t.Errorf("what the task wrote is lost: %q", log)
	}
	m.remove("found")
}

// dataOf runs a job on a volume, reads what lies on it, and ends it.
func (m *machine) dataOf(volume string) string {
	m.t.Helper()
	m.run(writer{id: "reader", volume: volume}.hcl())
	pid := m.pid(m.running("reader", 1)[0].ID, "write", "/bin/sh")
	log := m.seen(pid, "/data/log")
	m.stopJob("reader")
	return log
}

// TestAnOlderCopyOfTheServersEndsNothing: given tasks that were begun after a copy of the servers' directory was made,
// when the copy takes its place and goes on with new jobs, then they run on.
func TestAnOlderCopyOfTheServersEndsNothing(t *testing.T) {
	m := newMachine(t, true)
	m.alarm = olderState
	m.create("data", "local-csi")
	m.kill()
	server, old := filepath.Join(m.data, "server"), filepath.Join(m.root, "old")
	if out, err := exec.Command("cp", "-a", server, old).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.start()
	m.awaitPlugin("local-csi")
	m.run(writer{id: "db", volume: "data"}.hcl())
	m.run(plain("plain"))
	db := m.pid(m.running("db", 1)[0].ID, "write", "/bin/sh")
	other := m.pid(m.running("plain", 1)[0].ID, "sleep", "/bin/sleep")
	m.kill()
	must(t, os.RemoveAll(server))
	must(t, os.Rename(old, server))
	m.start()
	m.orphans(2)
	m.reported(2)
	m.refused("data")
	for i := range 12 {
		m.run(plain("new-" + strconv.Itoa(i)))
	}
	m.running("new-11", 1)
	m.alive("on servers that went on from an older state", db, other)
	m.refused("data")
	m.recovers("evidence")
	m.refused("data") // what a person said of the state ends nothing
	m.alive("after the recovery", db, other)

	m.endOrphans()
	if err := syscall.Kill(db, 0); err == nil {
		t.Error("the orphan's process lives")
	}
	if log := m.dataOf("data"); !strings.Contains(log, "started") {
		t.Errorf("what the task wrote is lost: %q", log)
	}
	for i := range 12 {
		m.stopJob("new-" + strconv.Itoa(i))
	}
	m.remove("data")
}

// TestALostNodeStoreEndsNothing: given running tasks, when the node's store is deleted under them, then the node is
// still itself, they run on, and the volume that one uses cannot be deleted; ended by a person, the jobs run anew.
func TestALostNodeStoreEndsNothing(t *testing.T) {
	for _, what := range []string{"client/client.db", "client"} {
		t.Run(what, func(t *testing.T) { lostStore(t, what) })
	}
}

func lostStore(t *testing.T, what string) {
	m, db, other := settled(t)
	was := await(m, "the node", m.api.Nodes().List, func(all []*api.NodeListStub) bool { return len(all) == 1 })[0].ID
	m.run(plain("over"))
	m.stopJob("over")
	m.kill()
	must(t, os.RemoveAll(filepath.Join(m.data, what)))
	m.start()
	m.orphans(3)
	m.reported(3)
	if all, _, err := m.api.Nodes().List(t.Context(), nil); err != nil || len(all) != 1 || all[0].ID != was {
		t.Errorf("the node was %s: %+v, %v", was, all, err)
	}
	m.refused("data")
	m.alive("without the node's store", db, other)
	for _, o := range m.orphans(3) { // what had ended is none
		if !o.Processes || !o.RecordLost {
			t.Errorf("an orphan: %+v", o)
		}
	}
	for _, what := range []string{"job status db", "job status plain", "plugin status local-csi"} {
		if out, code := m.cli(strings.Fields(what)...); code != 0 || !strings.Contains(out, "berth node orphans end") {
			t.Errorf("%s names no way out: %d\n%s", what, code, out)
		}
	}

	m.endOrphans()
	m.awaitPlugin("local-csi")
	again := m.pid(m.running("db", 1)[0].ID, "write", "/bin/sh")
	m.eventually("the database to go on where it was", func() bool {
		return strings.Count(m.seen(again, "/data/log"), "started") == 2
	})
	m.running("plain", 1)
	m.stopJob("db")
	m.stopJob("plain")
	m.remove("data")
}

// TestAdoptedWithoutTheNodesStore: given a database on a volume whose node has lost its store, when a person adopts the
// plugin and the database, then they are allocations like any others again, in the same processes, and an ordinary stop
// of the job releases everything.
func TestAdoptedWithoutTheNodesStore(t *testing.T) {
	m, db, other := settled(t)
	m.kill()
	must(t, os.Truncate(filepath.Join(m.data, "client/client.db"), 0))
	m.start()
	m.eventually("the shims to say what they hold", func() bool {
		return !slices.ContainsFunc(m.orphans(3), func(o *api.NodeOrphan) bool { return o.JobID == "" })
	})
	for _, job := range []string{"local-csi", "db", "plain"} {
		m.adopt(job)
	}
	m.orphans(0)
	m.awaitPlugin("local-csi")
	m.alive("after the adoption", db, other)
	m.eventually("the database to be itself", func() bool {
		return m.pid(m.running("db", 1)[0].ID, "write", "/bin/sh") == db
	})
	if log := m.seen(db, "/data/log"); strings.Count(log, "started") != 1 {
		t.Errorf("it was started again: %q", log)
	}
	m.stopJob("db")
	m.stopJob("plain")
	m.remove("data")
}

// adopt gives the one orphan of a job to the servers.
func (m *machine) adopt(job string) {
	m.t.Helper()
	all, _, err := m.api.Nodes().List(m.t.Context(), nil)
	must(m.t, err)
	node, _, err := m.api.Nodes().Get(m.t.Context(), all[0].ID, nil)
	must(m.t, err)
	for _, o := range node.Orphans {
		if o.JobID == job {
			if out, code := m.cli("node", "orphans", "adopt", "-yes", o.AllocID); code != 0 {
				m.t.Fatalf("adopting the orphan of job %q: %d\n%s\n%s", job, code, out, m.tail())
			}
			return
		}
	}
	m.t.Fatalf("there is no orphan of job %q", job)
}
