package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"berth/api"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
)

// TestClusterNetworkIsCut: given three machines with tasks that write to volumes, when the machine whose server leads
// is cut off, then the two others go on with a new leader, the one alone answers nothing that may be old, and tasks on
// both sides go on; whole again, all follow one leader. When one that does not lead is cut off, nothing changes for the
// others. No task is started anew, no volume is given away, and nothing is left.
func TestClusterNetworkIsCut(t *testing.T) {
	c := newCluster(t)
	var pids []int
	for i := range c.machines {
		pids = append(pids, c.use(i, fmt.Sprintf("data%d", i+1)))
	}
	c.seesWriters(1, "data2")
	old := c.leads()
	calls := len(c.p.calls())
	c.cut(old)
	now := c.leads(old)
	if now == old {
		t.Fatalf("s%d leads, though it is cut off", old+1)
	}
	c.nobodyLeads(old)
	c.quickly(c.other(old), c.other(old, now), "without-the-leader")
	c.untouched("the leader is cut off", pids...)
	c.join(old)
	c.whole(old)
	c.untouched("the leader is back", pids...)

	now = c.leads()
	one := c.other(now)
	c.cut(one)
	if c.leads(one) != now {
		t.Error("another one leads, since one that followed is cut off")
	}
	c.quickly(now, now, "without-one")
	c.untouched("one is cut off", pids...)
	c.join(one)
	c.whole(one)
	c.untouched("it is back", pids...)
	if more := c.p.calls()[calls:]; len(more) > 0 {
		t.Errorf("cuts made calls at the plugin: %v", more)
	}
	c.over("data1", "data2", "data3")
}

// TestClusterRollsOver: given three machines with tasks that write to volumes, and a client that registers and stops
// jobs all the while, when one agent after the other is restarted, as for an upgrade, then no task is started anew, no
// call at the plugin changes anything, and nothing that was acknowledged is lost.
func TestClusterRollsOver(t *testing.T) {
	long(t)
	c := newCluster(t)
	var pids []int
	for i := range c.machines {
		pids = append(pids, c.use(i, fmt.Sprintf("data%d", i+1)))
	}
	calls := len(c.p.calls())
	quiet := c.p.quiet()
	l := c.loads()
	for i, m := range c.machines {
		if err := m.stop(); err != nil {
			t.Errorf("the agent of %s ends: %v", name(i), err)
		}
		c.speak(c.other(i))
		c.m().voters(3, 1)
		m.launch()
		m.answers()
		c.whole(i)
		c.untouched(fmt.Sprintf("%s was restarted", name(i)), pids...)
	}
	c.speak(0)
	l.over()
	quiet()
	if more := c.p.calls()[calls:]; len(more) > 0 {
		t.Errorf("restarts made calls at the plugin: %v", more)
	}
	c.untouched("all were restarted", pids...)
	c.over("data1", "data2", "data3")
}

// freeze has an agent stand still; its tasks go on. The returned function has it go on, too.
func (m *machine) freeze() (thaw func()) {
	m.t.Helper()
	agent := m.cmd.Process
	must(m.t, agent.Signal(syscall.SIGSTOP))
	thaw = func() { must(m.t, agent.Signal(syscall.SIGCONT)) }
	m.t.Cleanup(func() { _ = agent.Signal(syscall.SIGCONT) }) // it may have ended
	return thaw
}

// begun waits for the next call of a kind, from a number of entries of the record on, and returns its begin.
func (p *judged) begun(rpc string, from int) (found proxy.Entry) {
	p.m.t.Helper()
	p.m.eventually("a call of "+rpc, func() bool {
		for _, e := range p.entries()[from:] {
			if e.Kind == proxy.CallBegins && e.RPC == rpc {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// completed says how many calls of a kind for a volume, by its id or its name, have succeeded.
func (p *judged) completed(rpc, volume string) (n int) {
	for _, e := range p.entries() {
		if e.Kind == proxy.CallEnds && e.RPC == rpc && e.Volume == volume && e.Code == "OK" {
			n++
		}
	}
	return n
}

// TestClusterLeaderFreezes: given a leader that has asked a machine to make a volume, another one or its own, when its
// process stands still before it hears the result, then another one leads, and volumes are made and used. When it goes
// on, then it follows, and the volume was made once. No task is started anew.
func TestClusterLeaderFreezes(t *testing.T) {
	long(t)
	c := newCluster(t)
	var pids []int
	names := []string{"data1", "data2", "data3"}
	for i, id := range names {
		pids = append(pids, c.use(i, id))
	}
	executor := c.executor()
	for leader, id := range map[int]string{executor: "by-itself", c.other(executor): "by-another"} {
		c.speak(c.other(executor, leader))
		c.whole(leader)
		c.lead(leader)
		c.executes(executor)
		from := len(c.p.entries())
		c.p.rules("(CreateVolume * hold)")
		made := c.creates(id)
		begin := c.p.begun("CreateVolume", from)
		if want := c.p.on(name(executor)); begin.Proxy != want {
			t.Fatalf("%s makes the call, and it should be %s", begin.Proxy, want)
		}
		thaw := c.machines[leader].freeze()
		now := c.leads(leader)
		c.p.rules()
		during := "during-" + id
		pids = append(pids, c.use(c.other(leader), during))
		names = append(names, during)
		c.untouched("the leader stands still", pids...)
		thaw()
		if got := c.leads(); got != now {
			t.Errorf("%s leads, since %s goes on; before it was %s", name(got), name(leader), name(now))
		}
		c.whole(leader)
		doneOrNot(t, <-made)
		c.m().volume(id, "made", func(v *api.CSIVolume) bool { return v.Phase == "ready" })
		if n := c.p.completed("CreateVolume", begin.Volume); n != 1 && leader != executor {
			t.Errorf("%s was made %d times", id, n)
		}
		c.untouched("it goes on", pids...)
		c.m().run(on(leader, writer{id: id, volume: id}.hcl()))
		pids = append(pids, c.writes(id))
		names = append(names, id)
	}
	c.provides(len(names))
	c.over(names...)
}

// doneOrNot wants a request to have succeeded, or to end with the word that nobody knows.
func doneOrNot(t *testing.T, err error) {
	t.Helper()
	if err != nil && !strings.Contains(err.Error(), "it may have been done or not") {
		t.Errorf("a request ends with: %v", err)
	}
}

// creates has a volume made; the end comes when it is.
func (c *cluster) creates(id string) chan error {
	out := make(chan error, 1)
	volumes, ctx := c.m().api.Volumes(), c.t.Context()
	go func() {
		_, _, err := volumes.Create(ctx, volumeOf(id, "shared"), nil)
		out <- err
	}()
	return out
}

// provides wants so many volumes at the provider.
func (c *cluster) provides(n int) {
	c.t.Helper()
	all := csitest.Provider(c.t, c.p.see("backend"))
	if len(all) != n {
		c.t.Errorf("the provider has %d volumes, and should have %d: %v", len(all), n, all)
	}
}
