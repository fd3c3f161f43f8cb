package e2e

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/api"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
)

// cluster are machines whose agents have a server and a node each, and a network of their own, connected by a bridge.
type cluster struct {
	t        *testing.T
	bridge   int // process that holds the network namespace of the bridge
	machines []*machine
	networks []int // of each machine
	at       int   // the machine whose agent the test speaks with
	p        *judged
	crew     crew
	settings string // of the servers
}

var playLong = flag.Bool("cluster", false, "play the long tests of clusters, too")

// long leaves a test out where nobody asked for the long ones.
func long(t *testing.T) {
	t.Helper()
	if !*playLong {
		t.Skip("it takes long: make cluster plays it")
	}
}

// networked is the configuration of a machine of a cluster; %s is what only those have that join.
const networked = `
name = "s%[1]d"
addresses { rpc = %[2]q }
server {
  enabled          = true
  bootstrap_expect = 3
  %[3]s
}
client { enabled = true }
plugin "raw_exec" {
  config { enabled = true }
}
api { socket = %[4]q }
acl { enabled = false }
`

func address(i int) string { return fmt.Sprintf("10.78.0.%d", i+1) }

// newCluster starts three machines that are one cluster, with a storage plugin for tests on each that serves volumes
// that all reach. settings are lines of the block server.
func newCluster(t *testing.T, settings ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, bridge: namespace(t), settings: strings.Join(settings, "\n  ")}
	c.ip(c.bridge, "link", "add", "bridge", "type", "bridge")
	c.ip(c.bridge, "link", "set", "bridge", "up")
	for i := range 3 {
		if i == 0 {
			c.begins()
		} else {
			c.joins(c.add(address(0)))
		}
		c.m().voters(i+1, 0)
		c.m().ready(name(i))
	}
	first := c.machines[0]
	c.p = &judged{
		m:      first,
		id:     "shared",
		driver: "raw_exec",
		nodes:  3,
		crew:   &c.crew,
		scope:  "cluster",
	}
	c.p.argv = []string{c.p.see("csi-proxy"), "-serve-fake",
		fmt.Sprintf(`{"Dir": %q, "NodeID": "${node.unique.name}"}`, c.p.see("backend"))}
	c.p.begin()
	return c
}

// namespace makes a network namespace that lasts as long as the test, and returns a process in it.
func namespace(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("unshare", "--net", "sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() {
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	})
	own, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	m := &machine{t: t}
	m.eventually("a network namespace", func() bool {
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid))
		return err == nil && its != own
	})
	return cmd.Process.Pid
}

// inNetwork are the arguments that run a program in a network.
func inNetwork(pid int, args ...string) []string {
	return append([]string{"nsenter", "--target", strconv.Itoa(pid), "--net"}, args...)
}

func (c *cluster) ip(network int, args ...string) {
	c.t.Helper()
	args = inNetwork(network, append([]string{"ip"}, args...)...)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// m is the machine whose agent the test speaks with.
func (c *cluster) m() *machine { return c.machines[c.at] }

// speak has the test, and what feeds the oracle, speak with the agent of a machine from now on.
func (c *cluster) speak(i int) {
	c.at = i
	c.p.asked.Store(c.machines[i])
}

// begins starts a machine whose server begins a cluster.
func (c *cluster) begins() {
	c.t.Helper()
	m := c.add("")
	m.launch()
	m.answers()
}

// joins starts a machine whose server joins with a token.
func (c *cluster) joins(m *machine) {
	c.t.Helper()
	c.m().joinToken(m, "-role", "server")
	m.launch()
	m.answers()
}

func name(i int) string { return fmt.Sprintf("s%d", i+1) }

// add prepares one more machine, whose server joins where another one is; empty: it begins a cluster.
func (c *cluster) add(join string) *machine {
	c.t.Helper()
	i := len(c.machines)
	m := prepare(c.t, false)
	m.service = true
	c.machines = append(c.machines, m)
	c.plug(m)
	if join != "" {
		join = fmt.Sprintf("server_join { retry_join = [%q] }\n  join_token_file = %q",
			net.JoinHostPort(join, "4647"), m.token())
	}
	must(c.t, os.WriteFile(filepath.Join(m.root, "agent.hcl"),
		fmt.Appendf(nil, networked, i+1, address(i), join+"\n  "+c.settings, m.socket()), 0o600))
	return m
}

// addNode starts one more machine, that has a node alone.
func (c *cluster) addNode() *machine {
	c.t.Helper()
	who := name(len(c.networks))
	n := elsewhere(c.t, who, net.JoinHostPort(address(0), "4647"))
	c.plug(n)
	c.m().joinToken(n)
	n.launch()
	c.m().ready(who)
	return n
}

// plug gives a machine a network of its own, with a cable to the bridge.
func (c *cluster) plug(m *machine) {
	c.t.Helper()
	i, network := len(c.networks), namespace(c.t)
	c.networks = append(c.networks, network)
	c.crew.joins(name(i), m)
	c.ip(c.bridge, "link", "add", cable(i), "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(network))
	c.ip(c.bridge, "link", "set", cable(i), "master", "bridge", "up")
	c.ip(network, "address", "add", address(i)+"/24", "dev", "eth0")
	c.ip(network, "link", "set", "eth0", "up")
	c.ip(network, "link", "set", "lo", "up")
	m.wrap = func(cmd *exec.Cmd) {
		nsenter, err := exec.LookPath("nsenter")
		must(c.t, err)
		cmd.Args = inNetwork(network, append([]string{cmd.Path}, cmd.Args[1:]...)...)
		cmd.Path = nsenter
	}
}

func cable(i int) string { return fmt.Sprintf("cable%d", i) }

// cut takes a machine's cable out.
func (c *cluster) cut(i int) { c.ip(c.bridge, "link", "set", cable(i), "down") }

// join puts it in again.
func (c *cluster) join(i int) { c.ip(c.bridge, "link", "set", cable(i), "up") }

// leads is the number of the machine whose server leads, when so many do not answer, as another one says; silent are
// the machines that are not asked.
func (c *cluster) leads(silent ...int) int {
	c.t.Helper()
	leader := c.machines[c.other(silent...)].voters(3, len(silent))
	for i := range c.machines {
		if leader == name(i)+".global" {
			return i
		}
	}
	c.t.Fatalf("%q leads", leader)
	return 0
}

// lead has the server of a machine lead.
func (c *cluster) lead(i int) {
	c.t.Helper()
	if c.leads() == i {
		return
	}
	c.m().mustCLI("operator", "raft", "transfer-leadership", "-peer-id", name(i)+".global")
	c.m().eventually(name(i)+" to lead", func() bool { return c.leads() == i })
}

// executor is the machine that makes the controller calls of volumes that all reach, where all are well: that of the
// first node by its id.
func (c *cluster) executor() int {
	c.t.Helper()
	all, _, err := c.m().api.Nodes().List(c.t.Context(), nil)
	must(c.t, err)
	first := slices.MinFunc(all, func(a, b *api.NodeListStub) int { return cmp.Compare(a.ID, b.ID) })
	for i := range c.machines {
		if first.Name == name(i) {
			return i
		}
	}
	c.t.Fatalf("no machine is node %s", first.Name)
	return 0
}

// executes waits until a machine makes the controller calls: it takes the calls of a new leader a moment after that
// began to lead, and until then another one makes them.
func (c *cluster) executes(i int) {
	c.t.Helper()
	c.m().eventually(name(i)+" to make the calls", func() bool {
		from := len(c.p.entries())
		c.m().create("probe", c.p.id)
		c.m().remove("probe")
		return c.p.begun("CreateVolume", from).Proxy == c.p.on(name(i))
	})
}

// other is a machine that is none of these.
func (c *cluster) other(these ...int) int {
next:
	for i := range c.machines {
		for _, x := range these {
			if x == i {
				continue next
			}
		}
		return i
	}
	c.t.Fatal("there is no other machine")
	return 0
}

// use runs a job on a machine that writes to a volume of its own, and returns its process.
func (c *cluster) use(i int, name string) int {
	c.t.Helper()
	c.m().create(name, "shared")
	c.m().run(on(i, writer{id: name, volume: name}.hcl()))
	return c.writes(name)
}

// on has a job run on a machine.
func on(i int, hcl string) string {
	return strings.Replace(hcl, "group \"g\" {", fmt.Sprintf(`group "g" {
    constraint {
      attribute = "${node.unique.name}"
      value     = %q
    }`, name(i)), 1)
}

// writes waits until the task of a job writes to its volume, and returns its process.
func (c *cluster) writes(job string) int {
	c.t.Helper()
	pid := c.m().pid(c.m().running(job, 1)[0].ID, "write", "/data/tick")
	c.m().lives(pid, 0)
	return pid
}

// untouched wants the tasks to be the processes that they were, which write on.
func (c *cluster) untouched(when string, pids ...int) {
	c.t.Helper()
	for _, pid := range pids {
		c.m().alive(when, pid)
		c.m().lives(pid, 0)
		if got := c.m().seen(pid, "/data/log"); got != "started\n" {
			c.t.Errorf("%s: the task has noted %q", when, got)
		}
	}
}

// over stops the jobs, deletes their volumes and wants nothing of them on any machine.
func (c *cluster) over(names ...string) {
	c.t.Helper()
	m := c.m()
	for _, name := range names {
		m.stopJob(name)
		m.free(name)
		m.remove(name)
	}
	c.p.atRest()
	for _, m := range c.machines {
		for _, mount := range volumeMounts(m) {
			c.t.Errorf("left behind: mount %s", mount)
		}
	}
	m.stopJob("shared")
}

// whole waits until all servers answer, and those of a machine and its node too.
func (c *cluster) whole(i int) {
	c.t.Helper()
	c.leads()
	c.machines[i].voters(3, 0)
	c.machines[c.other(i)].ready(name(i))
}

// seesWriters holds what feeds the oracle to a task of a machine that writes to a volume: a call that brought the
// volume to another machine now would be found, and none so far is.
func (c *cluster) seesWriters(i int, id string) {
	c.t.Helper()
	v, _, err := c.m().api.Volumes().Get(c.t.Context(), id, nil)
	must(c.t, err)
	begin := proxy.Entry{
		Time:   time.Now(),
		Kind:   proxy.CallBegins,
		Plugin: c.p.id,
		Proxy:  c.p.on(name(c.other(i))),
		Call:   "one that nobody made",
		RPC:    "NodePublishVolume",
		Volume: v.ExternalID,
		Node:   name(c.other(i)),
		Mode:   "SINGLE_NODE_WRITER",
	}
	begin.Seen = c.p.witness(begin)
	writes := func(at int) bool {
		return slices.ContainsFunc(begin.Seen.Writers, func(w proxy.Writer) bool { return w.Node == name(at) })
	}
	if !writes(i) || writes(c.other(i)) {
		c.t.Errorf("to %s on %s write: %v", id, name(i), begin.Seen.Writers)
	}
	f := c.p.world()
	f.Records = c.p.records()
	found, err := oracle.Check(append(c.p.entries(), begin), f)
	must(c.t, err)
	if !slices.ContainsFunc(found, func(v oracle.Violation) bool { return v.Invariant == "I14" }) {
		c.t.Errorf("a second node for %s is no violation: %v", id, found)
	}
}

// quickly runs a job without a volume on a machine, by way of another, and stops it: the cluster does its work.
func (c *cluster) quickly(by, on int, job string) {
	c.t.Helper()
	m := c.machines[by]
	m.run(fmt.Sprintf(quick, job, name(on)))
	m.running(job, 1)
	m.stopJob(job)
}

// nobodyLeads wants a machine's agent to answer nothing that may be old: its client asks on until it gives up.
func (c *cluster) nobodyLeads(i int) {
	c.t.Helper()
	// It runs out, for nobody leads. The cut has to end before the node counts as down.
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	if jobs, _, err := c.machines[i].api.Jobs().List(ctx, nil); err == nil {
		c.t.Errorf("s%d is cut off, and lists %d jobs", i+1, len(jobs))
	}
}
