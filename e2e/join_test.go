package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/testkit/freeport"
)

// nodeOnly is the configuration of an agent that has a node and no server.
const nodeOnly = `
name = %q
client {
  enabled         = true
  servers         = [%q]
  join_token_file = %q
}
api {
  socket = %q
}
ports {
  http = %d
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
`

// elsewhere prepares another machine, whose agent has only a node, with a way to a server.
func elsewhere(t *testing.T, name, server string) *machine {
	t.Helper()
	n := prepare(t, false)
	n.service = true
	config := fmt.Appendf(nil, nodeOnly, name, server, n.token(), n.socket(), n.port)
	must(t, os.WriteFile(filepath.Join(n.root, "agent.hcl"), config, 0o600))
	return n
}

// token is where the machine's join token lies.
func (m *machine) token() string { return filepath.Join(m.root, "join-token") }

// joinToken makes a join token and gives it to another machine. It returns its id.
func (m *machine) joinToken(to *machine, flags ...string) string {
	m.t.Helper()
	out := m.mustCLI(append([]string{"operator", "join-token", "create"}, flags...)...)
	line := ""
	for _, l := range strings.Split(out, "\n") {
		if strings.HasPrefix(l, "berth-join-") {
			line = l
		}
	}
	if line == "" {
		m.t.Fatalf("no token in %q", out)
	}
	must(m.t, os.WriteFile(to.token(), []byte(line+"\n"), 0o600))
	return strings.Split(line, "-")[2]
}

// ready waits until a node of a name is ready.
func (m *machine) ready(name string) *api.NodeListStub {
	m.t.Helper()
	var found *api.NodeListStub
	await(m, "node "+name+" to be ready", m.api.Nodes().List, func(all []*api.NodeListStub) bool {
		for _, n := range all {
			if n.Name == name && n.Status == api.NodeStatusReady {
				found = n
			}
		}
		return found != nil
	})
	return found
}

// TestANodeOnAnotherMachineJoins: given a server with a port for nodes, when an agent without a server has a join token
// of it, then its node joins and runs what it is given, with volumes; output, commands and files go through the server.
// Its tasks go on over crashes of both agents, and it comes back without the token. Without a token, with one that was
// used, or with another cluster's, nobody joins, and the agent says why.
func TestANodeOnAnotherMachineJoins(t *testing.T) {
	m := prepare(t, false)
	m.service = true
	addr := net.JoinHostPort("127.0.0.1", fmt.Sprint(m.port))
	m.append(fmt.Sprintf("addresses {\n  rpc = \"127.0.0.1\"\n}\nports {\n  rpc = %d\n}\n", m.port))
	m.start()
	n := elsewhere(t, "far", addr)
	n.launch()
	n.eventually("it to say that it has no token", func() bool {
		return n.logged("level=WARN", "join-token", n.token())
	})
	id := m.joinToken(n)
	far := m.ready("far")
	must(t, os.Remove(n.token()))
	if out := m.mustCLI("operator", "join-token", "list"); !strings.Contains(out, id+"  node  <none>     0 ") {
		t.Errorf("the token was used once:\n%s", out)
	}

	m.localPlugin("p", "raw_exec") // the server's own node has no raw_exec
	m.create("data", "p")
	m.run(writer{id: "w", volume: "data"}.hcl())
	w := m.running("w", 1)[0]
	if w.NodeID != far.ID {
		t.Fatalf("it runs on node %s", w.NodeID)
	}
	pid := m.pid(w.ID, "write", "/data/tick")
	m.lives(pid, 0)
	out, code := m.cli("alloc", "exec", "-i=false", "-t=false", "-task", "write", w.ID, "/bin/cat", "/data/log")
	if code != 0 || out != "started\n" {
		t.Errorf("a command beside it ends with %d and says %q", code, out)
	}
	n.kill()
	n.launch()
	m.ready("far")
	m.kill()
	m.lives(pid, 0)
	m.launch()
	m.answers()
	m.ready("far")
	m.alive("both agents were killed", pid)
	m.lives(pid, 0)
	if got := m.seen(pid, "/data/log"); got != "started\n" {
		t.Errorf("over crashes of both agents it was started anew: %q", got)
	}

	used := elsewhere(t, "used", addr)
	m.joinToken(used, "-uses", "1")
	m.mustCLI("operator", "join-token", "revoke", strings.Split(used.read(used.token()), "-")[2])
	used.launch()
	used.eventually("it to say that its token is not known", func() bool {
		return used.logged("level=WARN", "it is not known", "berth operator join-token create")
	})

	other := prepare(t, false)
	other.service = true
	other.append(fmt.Sprintf("addresses {\n  rpc = \"127.0.0.1\"\n}\nports {\n  rpc = %d\n}\n", freeport.Pick(t)))
	other.start()
	lost := elsewhere(t, "lost", addr)
	other.joinToken(lost)
	lost.launch()
	lost.eventually("it to say that this is another cluster", func() bool {
		return lost.logged("level=WARN", "it is of another cluster, or somebody stands between")
	})
	if all, _, err := m.api.Nodes().List(t.Context(), nil); err != nil || len(all) != 2 {
		t.Errorf("%d nodes (%v)", len(all), err)
	}
	m.stopJob("w")
	m.free("data")
	m.remove("data")
	m.stopJob("p")
}

// read returns a file of the machine.
func (m *machine) read(path string) string {
	m.t.Helper()
	data, err := os.ReadFile(path)
	must(m.t, err)
	return string(data)
}

// TestTheBundledPluginStaysBesideItsServer: given a server whose node runs the bundled plugin, when another node joins
// that could run it too, then it does not: the plugin's program and directory are those of the server's machine.
func TestTheBundledPluginStaysBesideItsServer(t *testing.T) {
	m := prepare(t, true)
	m.service = true
	m.append(fmt.Sprintf("addresses {\n  rpc = \"127.0.0.1\"\n}\nports {\n  rpc = %d\n}\n", m.port))
	m.append("plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	m.start()
	m.awaitPlugin("local-csi")
	n := elsewhere(t, "far", net.JoinHostPort("127.0.0.1", fmt.Sprint(m.port)))
	m.joinToken(n)
	n.launch()
	far := m.ready("far")
	own := m.localNode(far.ID)
	m.run(strings.Replace(shellJob("beside", "raw_exec", "exec sleep 100000", ""), "group \"g\" {", `group "g" {
    constraint {
      attribute = "${node.unique.name}"
      value     = "far"
    }`, 1))
	m.running("beside", 1) // what the node's arrival brought about has been placed by now
	all, _, err := m.api.Jobs().Allocations(t.Context(), "local-csi", true, &api.QueryOptions{Namespace: "berth"})
	must(t, err)
	if len(all) != 1 || all[0].NodeID != own {
		t.Errorf("the bundled plugin has %d allocations, of which the first is on node %s; the server's is %s",
			len(all), all[0].NodeID, own)
	}
	m.stopJob("beside")
	m.mustCLI("job", "stop", "-namespace", "berth", "-detach", "-y", "local-csi")
	m.eventually("the bundled plugin to have stopped", func() bool { return len(m.shims()) == 0 })
}

// localNode is the id of the node beside the server, where there is one other.
func (m *machine) localNode(other string) string {
	m.t.Helper()
	all, _, err := m.api.Nodes().List(m.t.Context(), nil)
	must(m.t, err)
	for _, n := range all {
		if n.ID != other {
			return n.ID
		}
	}
	m.t.Fatal("there is no node beside the server")
	return ""
}
