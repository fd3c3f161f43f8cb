package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/testkit/freeport"
)

// onRack is a job for nodes of a rack.
const onRack = `
job "on-rack" {
  constraint {
    attribute = "${meta.rack}"
    value     = "r7"
  }
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["1000000"]
      }
    }
  }
}
`

// TestANodeIsMarkedAndForgotten: given a node without what a job asks for, when its metadata are changed at run time,
// then the job is placed there at once; what was changed outlives the agent. When the servers have moved while the
// node's agent was off, then the servers that a person names are asked, and the next start finds them by itself. A node
// that is down is purged once nothing is bound to it; its agent comes back without a token, as the same node.
func TestANodeIsMarkedAndForgotten(t *testing.T) {
	m := begins(t)
	m.start()
	n := elsewhere(t, "far", m.rpc(1))
	m.joinToken(n)
	n.launch()
	far := m.ready("far")
	must(t, os.Remove(n.token()))

	m.jobRun(onRack, "-detach")
	await(m, "the job to be blocked", m.api.Evaluations().List, func(all []*api.Evaluation) bool {
		return slices.ContainsFunc(all, func(e *api.Evaluation) bool { return e.Status == "blocked" })
	})
	m.cliRefuses([]string{"node", "meta", "apply", "-node-id", "far", "a key=r7"}, "letters, digits")
	m.mustCLI("node", "meta", "apply", "-node-id", "far", "rack=r7")
	a := m.running("on-rack", 1)[0]
	if a.NodeID != far.ID {
		t.Fatalf("it runs on %s", a.NodeID)
	}
	m.mustCLI("node", "meta", "apply", "-node-id", "far", "gone=1")
	m.mustCLI("node", "meta", "apply", "-node-id", "far", "-unset", "gone")
	n.kill()
	n.launch()
	m.eventually("its metadata to be what was said before the restart", func() bool {
		out, code := m.cli("node", "meta", "read", "-node-id", "far")
		return code == 0 && strings.Count(out, "rack = r7") == 2 && !strings.Contains(out, "gone")
	})

	// The servers move.
	n.kill()
	m.kill()
	file := filepath.Join(m.root, "agent.hcl")
	text, err := os.ReadFile(file)
	must(t, err)
	port := freeport.Pick(t)
	was, moved := fmt.Sprintf("rpc = %d", m.port), net.JoinHostPort("127.0.0.11", fmt.Sprint(port))
	must(t, os.WriteFile(file, bytes.Replace(text, []byte(was), fmt.Appendf(nil, "rpc = %d", port), 1), 0o600))
	m.launch()
	m.answers()
	n.launch()
	n.eventually("it to find no server", func() bool {
		out, code := n.cli("node", "config", "-servers")
		return code == 0 && strings.TrimSpace(out) == m.rpc(1) && n.logged("the servers can't be reached")
	})
	n.cliRefuses([]string{"node", "config", "-update-servers", "127.0.0.11"}, "is not host:port")
	m.cliRefuses([]string{"node", "config", "-update-servers", moved}, "this agent has a server")
	n.mustCLI("node", "config", "-update-servers", moved)
	m.ready("far")
	n.eventually("the node to know where the server is", func() bool {
		return strings.Contains(n.read(filepath.Join(n.data, "client", "credentials.json")), moved)
	})
	n.kill()
	n.launch() // its configuration names the old address
	m.ready("far")

	m.cliRefuses([]string{"node", "purge", "-yes", far.ID}, "it is ready, not down", "stop its agent")
	m.mustCLI("job", "stop", "-detach", "on-rack")
	m.ended("on-rack")
	must(t, n.stop())
	await(m, "the node to be down", m.api.Nodes().List, func(all []*api.NodeListStub) bool {
		return slices.ContainsFunc(all, func(s *api.NodeListStub) bool {
			return s.ID == far.ID && s.Status == api.NodeStatusDown
		})
	})
	m.mustCLI("node", "purge", "-yes", far.ID)
	m.cliRefuses([]string{"node", "status", far.ID}, "not found")
	m.cliRefuses([]string{"node", "purge", "-yes", far.ID}, "not found")
	n.launch()
	if back := m.ready("far"); back.ID != far.ID {
		t.Errorf("it is another node: %s", back.ID)
	}
	if out := m.mustCLI("node", "meta", "read", "-node-id", "far"); !strings.Contains(out, "rack = r7") {
		t.Errorf("it has forgotten its metadata:\n%s", out)
	}
}
