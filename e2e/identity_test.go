package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/api"
)

// noNode is in the error of an agent whose node does not start.
const noNode = "the node does not start"

// dies ends everything that runs on the machine, as a loss of power does; what is mounted stays.
func (m *machine) dies() {
	m.t.Helper()
	m.kill()
	m.eventually("all processes to be gone", func() bool {
		all := processesOf(m.root)
		for _, p := range all {
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				m.t.Fatal(err)
			}
		}
		return len(all) == 0
	})
}

// node waits until the servers know one node that is as wanted.
func (m *machine) node(what string, ok func(*api.NodeListStub) bool) *api.NodeListStub {
	m.t.Helper()
	all := await(m, "a node to be "+what, m.api.Nodes().List, func(all []*api.NodeListStub) bool {
		return slices.ContainsFunc(all, ok)
	})
	return all[slices.IndexFunc(all, ok)]
}

func isReady(n *api.NodeListStub) bool { return n.Status == api.NodeStatusReady }

func (m *machine) mustCLI(args ...string) string {
	m.t.Helper()
	out, code := m.cli(args...)
	if code != 0 {
		m.t.Fatalf("berth %s: %d\n%s\n%s", strings.Join(args, " "), code, out, m.tail())
	}
	return out
}

// cliRefuses fails the test unless a command ends with an error that has these words.
func (m *machine) cliRefuses(args []string, words ...string) {
	m.t.Helper()
	out, code := m.cli(args...)
	if code == 0 {
		m.t.Fatalf("berth %s succeeded:\n%s", strings.Join(args, " "), out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			m.t.Errorf("berth %s does not say %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
}

// TestAStoreLostWithoutTasksAsksAPerson: given a node whose store is emptied while none of its tasks runs, when its
// agent starts, then the node is refused with both ways out, and nothing is undone; with the token of the servers it
// goes on as the node that it was, what is mounted is found and released, and its job goes on with its volume's data.
func TestAStoreLostWithoutTasksAsksAPerson(t *testing.T) {
	m, _, _ := settled(t)
	m.alarm = noNode
	was := m.node("ready", isReady).ID
	m.dies()
	must(t, os.Truncate(filepath.Join(m.data, "client", "client.db"), 0))
	before := volumeMounts(m)
	if len(before) == 0 {
		t.Fatal("nothing is mounted any more, so that nothing can be found")
	}
	m.launch()
	m.answers()
	m.eventually("the refusal", func() bool {
		return m.logged("level=ERROR", noNode, was, "identity keep", "identity new")
	})
	m.cliRefuses([]string{"node", "identity", "keep", "-yes", "-data-dir", m.data, was + ".x"}, "uses it")
	token := ""
	m.eventually("the servers to give a token", func() bool {
		out, code := m.cli("node", "readmit", "-yes", "-json", "-reason", "its store was emptied by a test", was)
		if code != 0 {
			m.says(out, "may still run", "ask again in")
			return false
		}
		_, rest, _ := strings.Cut(out, `"Token": "`)
		token, _, _ = strings.Cut(rest, `"`)
		return true
	})
	must(t, m.stop())
	if got := volumeMounts(m); !slices.Equal(got, before) {
		t.Errorf("a node that was refused has changed what is mounted: %v, was %v", got, before)
	}
	m.cliRefuses([]string{"node", "identity", "new", "-yes", "-data-dir", m.data}, "mounted at")
	out := m.mustCLI("node", "identity", "keep", "-yes", "-data-dir", m.data, token)
	m.says(out, was)
	m.start()
	if now := m.node("ready", isReady); now.ID != was {
		t.Errorf("it is node %s, it was %s", now.ID, was)
	}
	m.says(m.mustCLI("node", "status", was), "without its store")
	m.awaitPlugin("local-csi")
	m.endLeft()
	again := m.pid(m.running("db", 1)[0].ID, "write", "/bin/sh")
	m.eventually("the database to go on where it was", func() bool {
		return strings.Count(m.seen(again, "/data/log"), "started") == 2
	})
	m.stopJob("db")
	m.stopJob("plain")
	m.remove("data")
}

// endLeft ends what is left of allocs without a record.
func (m *machine) endLeft() {
	m.t.Helper()
	if out, code := m.cli("node", "orphans", "end", "-all", "-yes"); code != 0 && !strings.Contains(out, "No orphans") {
		m.t.Fatalf("ending what is left: %d\n%s\n%s", code, out, m.tail())
	}
}

// TestANewNodeBeginsWhereNothingLives: given a machine that was off, and whose store is lost, when a person begins
// another node there, then it starts as that, and what the old one had ends by a person's word alone.
func TestANewNodeBeginsWhereNothingLives(t *testing.T) {
	m, _, _ := settled(t)
	m.alarm = noNode
	was := m.node("ready", isReady).ID
	m.dies()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(m.data))
	must(t, err)
	for _, mount := range slices.Backward(mounts) {
		must(t, unix.Unmount(mount.Mountpoint, 0))
	}
	must(t, os.RemoveAll(filepath.Join(m.data, "client")))
	m.launch()
	m.answers()
	m.eventually("the refusal", func() bool { return m.logged("level=ERROR", noNode, was) })
	must(t, m.stop())
	m.says(m.mustCLI("node", "identity", "new", "-yes", "-data-dir", m.data), "a new one")
	if !exists(filepath.Join(m.data, "volumes.of-"+was)) {
		t.Error("the volumes of the old node are gone")
	}
	m.launch()
	m.answers()
	now := m.node("another", func(n *api.NodeListStub) bool {
		return n.Status == api.NodeStatusReady && n.ID != was
	}).ID
	m.refused("data")
	m.node("down", func(n *api.NodeListStub) bool { return n.Status == api.NodeStatusDown && n.ID == was })
	m.says(m.mustCLI("node", "replace", "-yes", "-reason", "a test began another node", was, now), "ended")
	m.awaitPlugin("local-csi")
	m.free("data")
	m.stopJob("db")
	m.stopJob("plain")
	m.endLeft()
	m.eventually("what the old node had staged to be undone", func() bool {
		left, err := filepath.Glob(filepath.Join(m.data, "csi/*/[sp]/*"))
		must(t, err)
		return len(left) == 0
	})
	m.mustCLI("volume", "deregister", "-force", "-yes", "-reason", "it lived on the node that is gone", "data")
}
