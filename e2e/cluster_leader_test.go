package e2e

import (
	"fmt"
	"testing"
	"time"

	"berth/api"
	"berth/internal/conformance/csi/proxy"
)

// storageStep is a step of a volume in the midst of which a leader dies.
type storageStep struct {
	name, rpc string
	made      bool // there is a volume before
	used      bool // and a job that uses it
	begin     func(c *cluster, id string, on int) chan error
}

// storageSteps are those of a volume's whole way.
var storageSteps = []storageStep{
	{
		name:  "create",
		rpc:   "CreateVolume",
		begin: func(c *cluster, id string, _ int) chan error { return c.creates(id) },
	},
	{name: "attach", rpc: "ControllerPublishVolume", made: true, begin: (*cluster).starts},
	{name: "publish", rpc: "NodePublishVolume", made: true, begin: (*cluster).starts},
	{name: "release", rpc: "NodeUnpublishVolume", made: true, used: true, begin: (*cluster).stops},
	{name: "detach", rpc: "ControllerUnpublishVolume", made: true, used: true, begin: (*cluster).stops},
	{name: "delete", rpc: "DeleteVolume", made: true, begin: (*cluster).deletes},
}

// starts runs a job that writes to a volume.
func (c *cluster) starts(id string, i int) chan error {
	c.m().run(on(i, writer{id: id, volume: id}.hcl()))
	return nil
}

// stops stops it.
func (c *cluster) stops(id string, _ int) chan error {
	c.m().tellStop(id)
	return nil
}

// deletes has a volume deleted; the end comes when it is.
func (c *cluster) deletes(id string, _ int) chan error {
	out := make(chan error, 1)
	volumes, ctx := c.m().api.Volumes(), c.t.Context()
	go func() { out <- volumes.Delete(ctx, id, nil, time.Minute, nil) }()
	return out
}

// TestClusterLeaderDies: given a volume that is being made, attached, published, released, detached or deleted, when
// the leader is killed while the call at the plugin is under way, on another machine or on its own, then another one
// leads, and the call takes effect once. The volume is used, or gone, as was asked, and no task is started anew.
func TestClusterLeaderDies(t *testing.T) {
	long(t)
	c := newCluster(t)
	var pids []int
	for i, m := range c.machines {
		m.window = "0s" // agents are killed often here
		pids = append(pids, c.use(i, fmt.Sprintf("data%d", i+1)))
	}
	for _, s := range storageSteps {
		for _, own := range []bool{false, true} {
			c.diesDuring(s, own, pids)
			if t.Failed() {
				t.Fatalf("the leader died during %s, its own call: %t", s.name, own)
			}
		}
	}
	c.provides(len(pids))
	c.over("data1", "data2", "data3")
}

// diesDuring has the leader die during a step of a volume of its own, whose calls are made on its machine or not.
func (c *cluster) diesDuring(s storageStep, own bool, pids []int) {
	c.t.Helper()
	caller := c.executor()
	leader := caller
	if !own {
		leader = c.other(caller)
	}
	c.speak(c.other(caller, leader))
	c.lead(leader)
	c.executes(caller)
	id := fmt.Sprintf("%s-%t", s.name, own)
	if s.made {
		c.m().create(id, "shared")
	}
	if s.used {
		c.starts(id, caller)
		c.writes(id)
	}
	from := len(c.p.entries())
	c.p.rules("(" + s.rpc + " * hold)")
	asked := s.begin(c, id, caller)
	begin := c.p.begun(s.rpc, from)
	if want := c.p.on(name(caller)); begin.Proxy != want {
		c.t.Fatalf("%s makes the call, and it should be %s", begin.Proxy, want)
	}
	dead := c.machines[leader]
	dead.kill()
	if own {
		c.p.note(proxy.Entry{Mark: proxy.CallerCrashed, Caller: begin.Proxy})
	}
	c.leads(leader)
	c.p.rules()
	revive := func() {
		dead.launch()
		dead.answers()
		c.whole(leader)
	}
	// A new leader deletes nothing before each node that is not down has reported what it holds.
	early := own || s.name == "delete"
	if early {
		revive()
	}
	if asked != nil {
		doneOrNot(c.t, <-asked)
	}
	c.m().eventually(s.rpc+" to succeed", func() bool { return c.p.completed(s.rpc, begin.Volume) > 0 })
	c.settled(s, id)
	if n := c.p.completed(s.rpc, begin.Volume); n != 1 {
		c.t.Errorf("%s of %s took effect %d times", s.rpc, id, n)
	}
	if !early {
		revive()
	}
	if s.name != "delete" {
		if s.name == "create" || s.used {
			c.starts(id, caller)
			c.writes(id)
		}
		c.m().stopJob(id)
		c.m().free(id)
		c.m().remove(id)
	}
	c.untouched("the leader died during "+s.name, pids...)
}

// settled waits until a step has come to its end.
func (c *cluster) settled(s storageStep, id string) {
	c.t.Helper()
	switch s.name {
	case "create":
		c.m().volume(id, "made", func(v *api.CSIVolume) bool { return v.Phase == "ready" })
	case "attach", "publish":
		c.writes(id)
	case "release", "detach":
		c.m().ended(id)
		c.m().free(id)
	case "delete":
		c.m().eventually("the volume to be gone", func() bool {
			_, _, err := c.m().api.Volumes().Get(c.t.Context(), id, nil)
			return api.IsNotFound(err)
		})
	}
}
