package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cluster are machines whose agents have a server and a node each, and a network of their own, connected by a bridge.
type cluster struct {
	t        *testing.T
	bridge   int // process that holds the network namespace of the bridge
	machines []*machine
	networks []int // of each machine
	p        *judged
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
// that all reach.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, bridge: namespace(t)}
	c.ip(c.bridge, "link", "add", "bridge", "type", "bridge")
	c.ip(c.bridge, "link", "set", "bridge", "up")
	for i := range 3 {
		m := c.add()
		if i > 0 {
			c.machines[0].joinToken(m, "-role", "server")
		}
		m.launch()
		m.answers()
		c.machines[0].voters(i+1, 0)
		c.machines[0].ready(fmt.Sprintf("s%d", i+1))
	}
	first := c.machines[0]
	c.p = &judged{
		m:      first,
		id:     "shared",
		driver: "raw_exec",
		nodes:  3,
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

// add prepares one more machine.
func (c *cluster) add() *machine {
	c.t.Helper()
	i := len(c.machines)
	network := namespace(c.t)
	m := prepare(c.t, false)
	m.service = true
	c.machines = append(c.machines, m)
	c.networks = append(c.networks, network)
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
	join := ""
	if i > 0 {
		join = fmt.Sprintf("server_join { retry_join = [%q] }\n  join_token_file = %q",
			net.JoinHostPort(address(0), "4647"), m.token())
	}
	must(c.t, os.WriteFile(filepath.Join(m.root, "agent.hcl"),
		fmt.Appendf(nil, networked, i+1, address(i), join, m.socket()), 0o600))
	return m
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
		if leader == fmt.Sprintf("s%d.global", i+1) {
			return i
		}
	}
	c.t.Fatalf("%q leads", leader)
	return 0
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
	m := c.machines[0]
	m.create(name, "shared")
	m.run(strings.Replace(writer{id: name, volume: name}.hcl(), "group \"g\" {", fmt.Sprintf(`group "g" {
    constraint {
      attribute = "${node.unique.name}"
      value     = "s%d"
    }`, i+1), 1))
	pid := m.pid(m.running(name, 1)[0].ID, "write", "/data/tick")
	m.lives(pid, 0)
	return pid
}

// untouched wants the tasks to be the processes that they were, which write on.
func (c *cluster) untouched(when string, pids ...int) {
	c.t.Helper()
	for _, pid := range pids {
		c.machines[0].alive(when, pid)
		c.machines[0].lives(pid, 0)
		if got := c.machines[0].seen(pid, "/data/log"); got != "started\n" {
			c.t.Errorf("%s: the task has noted %q", when, got)
		}
	}
}

// over stops the jobs, deletes their volumes and wants nothing of them on any machine.
func (c *cluster) over(names ...string) {
	c.t.Helper()
	m := c.machines[0]
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
	c.machines[c.other(i)].ready(fmt.Sprintf("s%d", i+1))
}

// quickly runs a job without a volume on a machine, by way of another, and stops it: the cluster does its work.
func (c *cluster) quickly(by, on int, name string) {
	c.t.Helper()
	m := c.machines[by]
	m.run(fmt.Sprintf(quick, name, fmt.Sprintf("s%d", on+1)))
	m.running(name, 1)
	m.stopJob(name)
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
