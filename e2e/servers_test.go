package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/api"
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

// three is a cluster of three servers, s1 first.
func three(t *testing.T) []*machine {
	t.Helper()
	all := []*machine{begins(t)}
	first := all[0]
	first.start()
	for i := 2; i <= 3; i++ {
		m := joins(t, i, first.rpc(1))
		first.joinToken(m, "-role", "server")
		m.launch()
		m.answers()
		first.voters(i, 0)
		must(t, os.Remove(m.token()))
		all = append(all, m)
	}
	return all
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
	all := map[string]*machine{}
	for i, m := range three(t) {
		all[fmt.Sprintf("s%d.global", i+1)] = m
	}
	first := all["s1.global"]
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

// TestEveryServerHasItsOwnBundledPlugin: given two servers whose nodes run the bundled plugin, then each runs one of
// its own, no node takes another's, and a volume is made on each; an agent that starts anew disturbs neither.
func TestEveryServerHasItsOwnBundledPlugin(t *testing.T) {
	first := begins(t)
	const raw = "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n"
	first.configure(true, fmt.Sprintf("socket = %q", first.socket()),
		"name = \"s1\"\n"+raw+fmt.Sprintf(listens, 11, first.port))
	first.start()
	first.pluginOn("local-csi", 1)
	second := joins(t, 2, first.rpc(1))
	second.append(raw)
	file := filepath.Join(second.root, "agent.hcl")
	text, err := os.ReadFile(file)
	must(t, err)
	text = bytes.Replace(text, []byte("client {\n"), []byte("client {\n  local_csi = true\n"), 1)
	must(t, os.WriteFile(file, text, 0o600))
	first.joinToken(second, "-role", "server")
	second.launch()
	second.answers()
	first.voters(2, 0)
	first.pluginOn("local-csi", 2)

	berth := &api.QueryOptions{Namespace: "berth"}
	running := func() map[string]string { // allocs by node
		out := map[string]string{}
		jobs, _, err := first.api.Jobs().List(t.Context(), berth)
		must(t, err)
		for _, j := range jobs {
			all, _, err := first.api.Jobs().Allocations(t.Context(), j.ID, true, berth)
			must(t, err)
			for _, a := range all {
				out[a.NodeName+" "+j.ID] = a.ID + " " + a.ClientStatus
			}
		}
		return out
	}
	before := running()
	if len(before) != 2 || !strings.HasPrefix(slices.Sorted(maps.Keys(before))[0], "s1 local-csi") ||
		!strings.HasPrefix(slices.Sorted(maps.Keys(before))[1], "s2 local-csi-") {
		t.Errorf("the bundled plugins are %v", before)
	}
	for i, m := range []*machine{first, second} {
		m.kill()
		m.launch()
		m.answers()
		first.voters(2, 0)
		first.pluginOn("local-csi", 2)
		name := fmt.Sprintf("s%d", i+1)
		job := writer{id: "on-" + name, volume: "on-" + name, create: "plugin_id = \"local-csi\"\n" +
			"capacity_min = \"32MiB\"\ncapacity_max = \"64MiB\""}
		first.run(strings.Replace(job.hcl(), "group \"g\" {", fmt.Sprintf(`group "g" {
    constraint {
      attribute = "${node.unique.name}"
      value     = %q
    }`, name), 1))
		if got := first.running(job.id, 1)[0].NodeName; got != name {
			t.Errorf("%s runs on %s", job.id, got)
		}
	}
	if after := running(); !maps.Equal(before, after) {
		t.Errorf("the bundled plugins are %v, were %v", after, before)
	}
	first.stopJob("on-s1")
	first.stopJob("on-s2")
	for key := range before {
		_, id, _ := strings.Cut(key, " ")
		first.mustCLI("job", "stop", "-namespace", "berth", "-detach", "-y", id)
	}
	for _, m := range []*machine{first, second} {
		m.eventually("the bundled plugin to have stopped", func() bool { return len(m.shims()) == 0 })
	}
	first.mustCLI("server", "force-leave", "s2.global")
	<-second.done
	second.cmd = nil
	first.voters(1, 0)
}
