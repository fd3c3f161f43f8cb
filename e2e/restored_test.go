package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// saved copies all of data_dir but what is mounted beneath it, as a backup of the file system does, and returns the
// archive.
func (m *machine) saved() string {
	m.t.Helper()
	archive := filepath.Join(m.root, "saved.tar")
	// Sockets are in no archive, which tar says and calls no error.
	m.tar("--create", "--file", archive, "--one-file-system", "--directory", m.data, ".")
	return archive
}

// putBack lays a copy of data_dir over the present one. What is newer than the copy stays, where emptied is not set.
func (m *machine) putBack(archive string, emptied bool) {
	m.t.Helper()
	if emptied {
		// Where something is mounted the directory is busy, and stays.
		_ = exec.Command("find", m.data, "-xdev", "-mindepth", "1", "-depth", "-delete").Run()
	}
	m.tar("--extract", "--file", archive, "--directory", m.data)
}

func (m *machine) tar(args ...string) {
	m.t.Helper()
	out, err := exec.Command("tar", args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return // a file of something that runs has changed meanwhile
	}
	if err != nil {
		m.t.Fatalf("tar %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestACopyOfTheWholeDataDirectoryPutBackEndsNothing: given a copy of all of data_dir, servers and node, that was made
// while a job ran on a volume, and jobs that were begun since, one of them on that volume, when the copy is laid over
// the original, then what runs goes on, no volume in use is deleted or given to a second writer, and a person adopts
// the one and ends the other.
func TestACopyOfTheWholeDataDirectoryPutBackEndsNothing(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.create("b", "own")
	m.run(writer{id: "before", volume: "a"}.hcl())
	before := m.running("before", 1)[0]
	m.lives(m.pid(before.ID, "write", "/bin/sh"), 0)
	m.kill()
	archive := m.saved()

	m.start()
	m.awaitPlugin("own")
	m.stopJob("before")
	m.free("a")
	m.run(writer{id: "on-a", volume: "a"}.hcl())
	m.run(writer{id: "on-b", volume: "b"}.hcl())
	onA := m.pid(m.running("on-a", 1)[0].ID, "write", "/bin/sh")
	onB := m.pid(m.running("on-b", 1)[0].ID, "write", "/bin/sh")
	m.kill()
	m.putBack(archive, false)
	m.start()

	m.orphans(2)
	m.reported(2)
	m.alive("under the older state", onA, onB)
	m.refused("a")
	m.refused("b")
	m.lives(onA, 0)
	m.lives(onB, 0)
	if log := m.seen(onA, "/data/log"); strings.Count(log, "started") != 2 {
		t.Errorf("another task was started on the volume of one that runs: %q", log)
	}
	m.adopt("on-b")
	m.alive("after the adoption", onA, onB)
	if out, code := m.cli("node", "orphans", "end", "-yes", m.orphanOf("on-a").AllocID); code != 0 {
		t.Fatalf("ending the orphan: %d\n%s\n%s", code, out, m.tail())
	}
	m.orphans(0)
	m.alive("after the other was ended", onB)
	m.stopJob("before")
	m.stopJob("on-b")
	p.atRest("a", "b")
	m.remove("a")
	m.remove("b")
}

// orphanOf is the one orphan of a job.
func (m *machine) orphanOf(job string) *api.NodeOrphan {
	m.t.Helper()
	all, _, err := m.api.Nodes().List(m.t.Context(), nil)
	must(m.t, err)
	node, _, err := m.api.Nodes().Get(m.t.Context(), all[0].ID, nil)
	must(m.t, err)
	for _, o := range node.Orphans {
		if o.JobID == job {
			return o
		}
	}
	m.t.Fatalf("there is no orphan of job %q", job)
	return nil
}

// TestACopyBesideTheLivingOriginalIsRefused: given a copy of all of data_dir, its store too or without it, when an
// agent is started on it beside the original, then it is refused, and nothing ends on either side.
func TestACopyBesideTheLivingOriginalIsRefused(t *testing.T) {
	m := newMachine(t, true)
	m.create("a", "local-csi")
	m.run(writer{id: "user", volume: "a"}.hcl())
	pid := m.pid(m.running("user", 1)[0].ID, "write", "/bin/sh")
	m.kill()
	archive, clone := m.saved(), filepath.Join(m.root, "c")
	m.start()
	must(t, os.MkdirAll(clone, 0o700))
	m.tar("--extract", "--file", archive, "--directory", clone)
	for _, lost := range []string{"", "client/client.db", "client"} {
		if lost != "" {
			must(t, os.RemoveAll(filepath.Join(clone, lost)))
		}
		second := exec.Command(binary, "agent", "-dev", "-data-dir", clone, "-http-port", "1")
		out, err := second.CombinedOutput()
		if err == nil || !strings.Contains(string(out), m.data) {
			t.Errorf("without %q an agent ran on a copy, or it does not name the original: %v\n%s", lost, err, out)
		}
		m.alive("beside a refused copy", pid)
		m.lives(pid, 0)
	}
	m.stopJob("user")
	m.remove("a")
}
