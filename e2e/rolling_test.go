package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAClusterIsUpgradedServerByServer: given three servers and a node of the earlier version, and a task that writes
// to a volume, when the servers are upgraded one by one, then what is new is refused until all are, and works then; the
// node of the earlier version goes on with them, is upgraded, and put back. The task is never started again, and no
// plugin is asked to change anything. The earlier program is named in BERTH_EARLIER: "make upgradecluster" builds one.
func TestAClusterIsUpgradedServerByServer(t *testing.T) {
	earlier := os.Getenv("BERTH_EARLIER")
	if earlier == "" {
		t.Skip("BERTH_EARLIER names no earlier program: make upgradecluster builds one and runs this")
	}
	first := begins(t)
	file := filepath.Join(first.root, "agent.hcl")
	text, err := os.ReadFile(file)
	must(t, err)
	// Tasks are the node's: servers have no driver that runs the plugin.
	text = bytes.ReplaceAll(text, []byte("plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n"), nil)
	must(t, os.WriteFile(file, text, 0o600))
	first.earlier = earlier
	first.start()
	all := []*machine{first}
	for i := 2; i <= 3; i++ {
		m := joins(t, i, first.rpc(1))
		m.earlier = earlier
		first.joinToken(m, "-role", "server")
		m.launch()
		m.answers()
		first.voters(i, 0)
		all = append(all, m)
	}
	n := elsewhere(t, "far", first.rpc(1))
	n.earlier = earlier
	first.joinToken(n)
	n.launch()
	far := first.ready("far")
	p := first.localPlugin("own", "raw_exec")
	first.create("a", "own")
	first.run(writer{id: "w", volume: "a"}.hcl())
	w := first.running("w", 1)[0]
	if w.NodeID != far.ID {
		t.Fatalf("it runs on %s", w.NodeID)
	}
	pid := first.pid(w.ID, "write", "/data/tick")
	first.lives(pid, 0)
	plugin, before := p.pluginPID(), p.calls()
	goesOn := func(when string) {
		t.Helper()
		first.lives(pid, 0)
		if got := first.seen(pid, "/data/log"); got != "started\n" {
			t.Errorf("%s: it was started anew: %q", when, got)
		}
		if now := p.pluginPID(); now != plugin {
			t.Errorf("%s: the plugin's process was %d and is %d", when, plugin, now)
		}
	}

	for i, m := range all {
		m.kill()
		m.earlier = ""
		m.launch()
		m.answers()
		first.voters(3, 0)
		goesOn(fmt.Sprintf("%d servers are new", i+1))
		if i < len(all)-1 {
			if out, code := m.cli("node", "purge", "-yes", far.ID); code == 0 || strings.Contains(out, "not down") {
				t.Errorf("%d servers are new, and what all have to know is taken: %s", i+1, out)
			}
		}
	}
	first.eventually("all servers to be new", func() bool {
		out, code := first.cli("node", "purge", "-yes", far.ID)
		return code != 0 && strings.Contains(out, "it is ready, not down")
	})
	first.ready("far")
	for _, program := range []string{"", earlier, ""} {
		n.kill()
		n.earlier = program
		n.launch()
		n.eventually("its servers to have accepted it", func() bool {
			self, err := n.api.Cluster().Health(t.Context())
			return err == nil && self.Client != nil && self.Client.Ok
		})
		goesOn(fmt.Sprintf("the node is that of %q", program))
	}
	if now := p.calls(); !slices.Equal(now, before) {
		t.Errorf("calls before the upgrade: %v; after: %v", before, now)
	}
	first.stopJob("w")
	p.atRest("a")
	first.remove("a")
	first.stopJob("own")
}
