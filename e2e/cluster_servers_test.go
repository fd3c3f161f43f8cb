package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
)

// burns loses a machine with its disk and all that runs on it, for good.
func (c *cluster) burns(i int) {
	c.t.Helper()
	c.machines[i].lost()
	for _, file := range []string{"api.sock", "api.sock.lock"} {
		must(c.t, os.Remove(filepath.Join(c.machines[i].root, file)))
	}
	csitest.Burn(c.t, c.p.see("backend"), name(i))
	c.p.note(proxy.Entry{Mark: proxy.Fenced, Node: name(i)})
	c.p.note(proxy.Entry{Mark: proxy.Rebooted, Node: name(i)})
}

// down waits until a node that was lost counts as down.
func (c *cluster) down(node string) {
	c.t.Helper()
	await(c.m(), "node "+node+" to be down", c.m().api.Nodes().List, func(all []*api.NodeListStub) bool {
		return slices.ContainsFunc(all, func(n *api.NodeListStub) bool {
			return n.ID == node && n.Status == api.NodeStatusDown
		})
	})
}

// giveToken writes what a machine is to join with.
func (m *machine) giveToken(text string) {
	m.t.Helper()
	must(m.t, os.WriteFile(m.token(), []byte(text+"\n"), 0o600))
}

// TestClusterServerIsReplaced: given three machines with tasks that write to volumes, when the one whose server leads
// is lost with its disk, then it is removed, and another one joins with a token; one that is changed, revoked, expired
// or for nodes is refused, says why, and changes nothing. A person's word gives the lost one's volume to the new one,
// and then the loss of another server is borne. No other task is started anew.
func TestClusterServerIsReplaced(t *testing.T) {
	long(t)
	c := newCluster(t)
	pids := []int{c.use(0, "data1"), c.use(1, "data2")}
	c.m().create("data3", "shared")
	c.m().run(among("s[34]", writer{id: "data3", volume: "data3"}.hcl()))
	c.writes("data3")
	c.lead(2)
	old := c.m().ready(name(2)).ID
	c.burns(2)
	c.m().voters(3, 1)
	c.m().mustCLI("server", "force-leave", "s3.global")
	leads := c.m().voters(2, 0)

	fourth := c.add(address(0))
	peers := c.m().mustCLI("operator", "raft", "list-peers")
	c.m().joinToken(fourth, "-role", "server")
	good := strings.TrimSpace(fourth.read(fourth.token()))
	c.m().mustCLI("operator", "join-token", "revoke", strings.Split(good, "-")[2])
	c.m().joinToken(fourth, "-role", "server", "-ttl", "1s")
	expired := strings.TrimSpace(fourth.read(fourth.token()))
	lived, cancel := context.WithTimeout(t.Context(), time.Second) // it runs out with the token
	defer cancel()
	c.m().joinToken(fourth)
	forNodes := strings.TrimSpace(fourth.read(fourth.token()))
	fourth.giveToken(good[:len(good)-4])
	fourth.launch()
	<-lived.Done()
	for _, bad := range []struct{ token, says string }{
		{good[:len(good)-4], "it is cut off, or changed"},
		{good, "it is not known"},
		{expired, "it was good until"},
		{forNodes, "it is for a node"},
	} {
		fourth.giveToken(bad.token)
		fourth.eventually("it to be refused, for "+bad.says, func() bool {
			return fourth.logged("level=WARN", bad.says)
		})
		if now := c.m().voters(2, 0); now != leads {
			t.Errorf("%s leads, before it was %s", now, leads)
		}
		if now := c.m().mustCLI("operator", "raft", "list-peers"); now != peers {
			t.Errorf("a refused server has changed the peers:\n%s\nbefore:\n%s", now, peers)
		}
		c.untouched("a server was refused", pids...)
	}
	c.m().joinToken(fourth, "-role", "server")
	fourth.answers()
	c.m().voters(3, 0)
	now := c.m().ready(name(3)).ID
	c.down(old)
	c.m().mustCLI("node", "replace", "-yes", "-reason", "its disk is gone", old, now)
	c.m().eventually("the lost one's task to run on the new machine", func() bool {
		all := c.m().running("data3", 1)
		return all[0].NodeName == name(3)
	})
	moved := c.writes("data3")
	if log := c.m().seen(moved, "/data/log"); log != "started\nstarted\n" {
		t.Errorf("on the new machine the volume tells of %q", log)
	}
	c.untouched("a machine was replaced", pids...)

	h, err := c.m().api.Operator().AutopilotHealth(t.Context())
	must(t, err)
	if h.FailureTolerance != 1 {
		t.Errorf("%d servers may fail yet", h.FailureTolerance)
	}
	c.machines[1].kill()
	c.m().voters(3, 1)
	pids = append(pids, c.use(3, "data4"))
	c.untouched("another one is lost", pids...)
	c.machines[1].launch()
	c.machines[1].answers()
	c.m().voters(3, 0)
	c.m().ready(name(1))
	c.m().alive("all are back", moved)
	c.over("data1", "data2", "data3", "data4")
}

// TestClusterIsRestoredAsItLives: given three machines with tasks that write to volumes, one of them begun after the
// state was saved, when that is restored over the living cluster, then no task ends, no call at the plugin changes
// anything, and what the state does not know is adopted.
func TestClusterIsRestoredAsItLives(t *testing.T) {
	long(t)
	c := newCluster(t)
	var pids []int
	for i := range c.machines {
		pids = append(pids, c.use(i, fmt.Sprintf("data%d", i+1)))
	}
	saved := filepath.Join(t.TempDir(), "saved")
	c.m().mustCLI("operator", "snapshot", "save", saved)
	pids = append(pids, c.use(1, "late"))
	late := c.m().running("late", 1)[0].ID
	c.lead(2)
	calls, quiet := len(c.p.calls()), c.p.restoring()
	c.m().mustCLI("operator", "snapshot", "restore", "-yes", saved)
	c.m().healed()
	await(c.m(), "the orphan", c.m().api.Nodes().List, func(all []*api.NodeListStub) bool {
		n := 0
		for _, node := range all {
			n += node.Orphans
		}
		return n == 1
	})
	quiet()
	c.untouched("an older state was restored", pids...)
	for _, call := range c.p.calls()[calls:] {
		if call != "ControllerPublish" { // with equal arguments: whether it is attached is asked anew
			t.Errorf("the restore made a call at the plugin: %s", call)
		}
	}
	file := filepath.Join(t.TempDir(), "late.hcl")
	must(t, os.WriteFile(file, []byte(c.m().mustCLI("node", "orphans", "adopt", "-volumes", late)), 0o600))
	c.m().mustCLI("volume", "register", file)
	c.m().mustCLI("node", "orphans", "adopt", "-yes", late)
	c.m().running("late", 1)
	c.untouched("what was begun later is adopted", pids...)
	c.over("data1", "data2", "data3", "late")
}
