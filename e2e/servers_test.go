package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// anotherServer is the configuration of an agent whose server joins.
const anotherServer = `
name = "s%d"
server {
  enabled = true
  server_join {
    retry_join = [%q]
  }
  join_token_file = %q
}
client {
  enabled = true
}
api {
  socket = %q
}
acl { enabled = false }
`

// listens is what every agent of several servers on this machine has: an address of its own.
const listens = `
addresses {
  rpc = "127.0.0.%d"
}
ports {
  rpc = %d
}
`

// begins prepares the server that begins a cluster, s1.
func begins(t *testing.T) *machine {
	t.Helper()
	m := prepare(t, false)
	m.service = true
	m.append("name = \"s1\"\nplugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n" +
		fmt.Sprintf(listens, 11, m.port))
	return m
}

// joins prepares the server of a number, which joins by an address.
func joins(t *testing.T, i int, addr string) *machine {
	t.Helper()
	m := prepare(t, false)
	m.service = true
	text := fmt.Sprintf(anotherServer, i, addr, m.token(), m.socket()) + fmt.Sprintf(listens, 10+i, m.port)
	must(t, os.WriteFile(filepath.Join(m.root, "agent.hcl"), []byte(text), 0o600))
	return m
}

func (m *machine) rpc(i int) string {
	return net.JoinHostPort(fmt.Sprintf("127.0.0.%d", 10+i), fmt.Sprint(m.port))
}

// voters waits until so many servers vote and all answer but so many, as a machine's agent says, and returns which one
// leads.
func (m *machine) voters(n, silent int) string {
	m.t.Helper()
	leader := ""
	m.eventually(fmt.Sprintf("%d servers to vote, and %d to be silent", n, silent), func() bool {
		h, err := m.api.Operator().AutopilotHealth(m.t.Context())
		if err != nil {
			return false
		}
		well := 0
		for _, s := range h.Servers {
			if s.Healthy {
				well++
			}
		}
		leader = h.Leader
		return len(h.Voters) == n && len(h.Servers) == n && well == n-silent && leader != ""
	})
	return leader
}

// quick is a job that asks for nothing, and goes on.
const quick = `
job %q {
  constraint {
    attribute = "${node.unique.name}"
    value     = %q
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

// TestThreeServers: given a server, when two others join it by tokens, then all three keep the state. A job with a
// volume runs; the server that leads is killed, and another one leads: the API of the others answers, the task goes on,
// a new job runs. The one that was killed comes back by itself. Whoever is removed says so and ends, until one server
// is left.
func TestThreeServers(t *testing.T) {
	first := begins(t)
	first.start()
	all := map[string]*machine{"s1.global": first}
	for i := 2; i <= 3; i++ {
		m := joins(t, i, first.rpc(1))
		first.joinToken(m, "-role", "server")
		m.launch()
		m.answers()
		first.voters(i, 0)
		must(t, os.Remove(m.token()))
		all[fmt.Sprintf("s%d.global", i)] = m
	}
	for i := range all {
		first.ready(strings.TrimSuffix(i, ".global"))
	}
	first.localPlugin("p", "raw_exec")
	first.create("data", "p")
	first.run(writer{id: "w", volume: "data"}.hcl())
	w := first.running("w", 1)[0]
	pid := first.pid(w.ID, "write", "/data/tick")
	first.lives(pid, 0)

	leads := first.voters(3, 0)
	dead := all[leads]
	dead.kill()
	var other *machine
	node := ""
	for name, m := range all {
		if m != dead {
			other, node = m, strings.TrimSuffix(name, ".global")
			m.voters(3, 1)
		}
	}
	other.run(fmt.Sprintf(quick, "new", node))
	other.running("new", 1)
	first.alive("the server that leads was killed", pid)
	dead.launch()
	dead.answers()
	if dead.voters(3, 0) == leads {
		t.Errorf("%s leads again", leads)
	}
	first.alive("the server that was killed is back", pid)
	first.lives(pid, 0)
	if out := dead.mustCLI("operator", "raft", "list-peers"); strings.Count(out, "true") != 3 {
		t.Errorf("the peers are\n%s", out)
	}
	if out := dead.mustCLI("server", "members"); strings.Count(out, "alive") != 3 {
		t.Errorf("the members are\n%s", out)
	}
	first.stopJob("w")
	first.stopJob("new")
	first.stopJob("p")
	left := len(all)
	for name, m := range all {
		if m == first {
			continue
		}
		first.mustCLI("server", "force-leave", name)
		if err := <-m.done; err == nil {
			t.Error("an agent whose server was removed ends as if it were well")
		}
		m.cmd = nil
		if !m.logged("it was removed on", "give it another name") {
			t.Error("the server that was removed does not say so")
		}
		left--
		first.voters(left, 0)
	}
}
