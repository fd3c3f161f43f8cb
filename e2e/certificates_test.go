package e2e

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/api"
)

// certificate is the one that the agent's node shows.
func (m *machine) certificate() *x509.Certificate {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.data, "*", "credentials.json"))
	must(m.t, err)
	if len(found) != 1 {
		m.t.Fatalf("there are %d files of credentials", len(found))
	}
	data, err := os.ReadFile(found[0])
	must(m.t, err)
	var file struct{ Certificate []byte }
	must(m.t, json.Unmarshal(data, &file))
	leaf, err := x509.ParseCertificate(file.Certificate)
	must(m.t, err)
	return leaf
}

// renews waits until the agent's node has another certificate than this one.
func (m *machine) renews(old *x509.Certificate) *x509.Certificate {
	m.t.Helper()
	var now *x509.Certificate
	m.eventually("another certificate", func() bool {
		now = m.certificate()
		return !now.Equal(old)
	})
	return now
}

// expired waits until the certificate of the agent's node is over.
func (m *machine) expired() *x509.Certificate {
	m.t.Helper()
	last := m.certificate()
	m.eventually("the certificate to be over", func() bool { return time.Now().After(last.NotAfter) })
	return last
}

// TestClusterCertificatesRotate: given three servers and two nodes whose certificates are good for two seconds, with
// tasks that write to volumes, when all of them have been renewed for a minute, then no node was down, none was without
// its servers but once, when the root that had let it in was forgotten, no task was started anew, and no call at the
// plugin changed anything. The root is replaced amid that, and then another server leads. When a node stands still for
// longer than its certificate is good, or was killed, then it comes back by its key, and its tasks go on.
func TestClusterCertificatesRotate(t *testing.T) {
	long(t)
	c := newCluster(t, `certificate_lifetime = "2s"`)
	nodes := []*machine{c.addNode(), c.addNode()}
	c.m().pluginOn(c.p.id, 5)
	pids := []int{c.use(0, "data1"), c.use(3, "data4"), c.use(4, "data5")}
	calls, quiet := len(c.p.calls()), c.p.quiet()
	seen := c.statusChanges()

	unreached := func() int { // how often the nodes were without their servers
		n := 0
		for _, m := range nodes {
			data, err := os.ReadFile(m.logPath())
			must(t, err)
			n += strings.Count(string(data), "the servers can't be reached")
		}
		return n
	}
	const renewals = 48 // each a second and a third after the one before
	for i := range renewals {
		for _, n := range nodes {
			n.renews(n.certificate())
		}
		switch i {
		case renewals / 3:
			c.m().mustCLI("operator", "ca", "rotate", "-yes")
			c.m().eventually("the nodes to know the new root", func() bool {
				return len(c.m().ca().Unaware) == 0
			})
			if n := unreached(); n > 0 {
				t.Errorf("while certificates and the root were renewed the nodes were not connected, %d times", n)
			}
			c.m().mustCLI("operator", "ca", "finish", "-yes") // ends the connections that the former root has let in
		case renewals * 2 / 3:
			if n := unreached(); n > len(nodes) {
				t.Errorf("the former root was forgotten, and %d times a node was not connected, not once each", n)
			}
			c.lead(c.other(c.leads()))
		}
	}
	c.untouched("certificates were renewed", pids...)
	if now := c.statusChanges(); now != seen {
		t.Errorf("nodes changed while certificates were renewed:\n%s\nbefore:\n%s", now, seen)
	}

	frozen, killed := nodes[0], nodes[1]
	thaw := frozen.freeze()
	last := frozen.expired()
	thaw()
	frozen.renews(last)
	killed.kill()
	last = killed.expired()
	killed.launch()
	killed.renews(last)
	for i := range nodes {
		c.m().ready(name(3 + i))
		c.quickly(0, 3+i, fmt.Sprintf("after-%d", i))
	}
	c.untouched("nodes were away for longer than certificates are good", pids...)
	quiet()
	if more := c.p.calls()[calls:]; len(more) > 0 {
		t.Errorf("renewals made calls at the plugin: %v", more)
	}
	c.over("data1", "data4", "data5")
	for _, n := range nodes {
		for _, mount := range volumeMounts(n) {
			t.Errorf("left behind: mount %s", mount)
		}
	}
}

// statusChanges tells of all nodes how they are, and since when.
func (c *cluster) statusChanges() string {
	c.t.Helper()
	all, _, err := c.m().api.Nodes().List(c.t.Context(), nil)
	must(c.t, err)
	var out strings.Builder
	for _, n := range all {
		full, _, err := c.m().api.Nodes().Get(c.t.Context(), n.ID, nil)
		must(c.t, err)
		fmt.Fprintf(&out, "%s %s since %d\n", full.Name, full.Status, full.StatusUpdatedAt)
	}
	return out.String()
}

// ca are the roots of the cluster.
func (m *machine) ca() *api.CA {
	m.t.Helper()
	ca, _, err := m.api.Operator().CA(m.t.Context(), nil)
	must(m.t, err)
	return ca
}

// TestTheRootIsReplacedWhileNodesRun: given a server and nodes on other machines with tasks, one of which is away, when
// the root is replaced, and the server and a node are killed meanwhile, then the node that is there learns it within a
// heartbeat, the former root is not forgotten while one is away, and that one joins on with what it had. One that is
// away until the former root is forgotten says that it needs a token, and comes back with one. No task is started anew.
func TestTheRootIsReplacedWhileNodesRun(t *testing.T) {
	m := prepare(t, false)
	m.service = true
	addr := net.JoinHostPort("127.0.0.1", fmt.Sprint(m.port))
	m.append(fmt.Sprintf("addresses {\n  rpc = \"127.0.0.1\"\n}\nports {\n  rpc = %d\n}\n", m.port))
	m.start()
	names := []string{"there", "away"}
	nodes, tasks := map[string]*machine{}, map[string]string{}
	task := func(who string) string {
		a := m.running(who, 1)[0]
		s := a.TaskStates["t"]
		return fmt.Sprintf("alloc %s, started at %s, restarted %d times", a.ID, s.StartedAt, s.Restarts)
	}
	for _, who := range names {
		n := elsewhere(t, who, addr)
		m.joinToken(n)
		n.launch()
		m.ready(who)
		nodes[who] = n
		must(t, os.Remove(n.token()))
		m.run(strings.Replace(shellJob(who, "raw_exec", "exec sleep 100000", ""), "group \"g\" {",
			fmt.Sprintf("group \"g\" {\n constraint {\n attribute = \"${node.unique.name}\"\n value = %q\n }", who), 1))
		tasks[who] = task(who)
	}
	alive := func(when string) {
		t.Helper()
		for _, who := range names {
			if now := task(who); now != tasks[who] {
				t.Errorf("%s: of %s there is %s, and was %s", when, who, now, tasks[who])
			}
		}
	}
	there, away := nodes["there"], nodes["away"]
	away.kill()
	m.mustCLI("operator", "ca", "rotate", "-yes")
	there.kill()
	m.kill()
	m.launch()
	m.answers()
	there.launch()
	knows := func(unaware ...string) func() bool {
		return func() bool {
			var got []string
			for _, n := range m.ca().Unaware {
				got = append(got, n.Name)
			}
			return strings.Join(got, " ") == strings.Join(unaware, " ")
		}
	}
	m.eventually("the node that is there to know the new root", knows("away"))
	if out, code := m.cli("operator", "ca", "finish", "-yes"); code == 0 || !strings.Contains(out, "away (") {
		t.Errorf("the former root is forgotten (%d): %s", code, out)
	}
	away.launch()
	m.eventually("the node that was away to know it", knows())
	m.ready("away")
	m.mustCLI("operator", "ca", "finish", "-yes")
	alive("the root is replaced")

	away.kill()
	m.mustCLI("operator", "ca", "rotate", "-yes")
	m.eventually("the node that is there to know the third root", knows("away"))
	m.mustCLI("operator", "ca", "finish", "-yes", "-force", "-reason", "the key was stolen")
	away.launch()
	away.eventually("it to say that it needs a token", func() bool {
		return away.logged("level=WARN", "another root", "berth operator join-token create", "join_token_file")
	})
	last := away.certificate()
	m.joinToken(away)
	away.renews(last)
	m.ready("away")
	m.ready("there")
	alive("the third root is there")
	for _, who := range names {
		m.stopJob(who)
	}
}
