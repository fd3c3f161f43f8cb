package heartbeat

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// withTimers runs timers over a cluster with some nodes in a bubble.
func withTimers(t *testing.T, endless bool, nodes []ids.Node, story func(*localstate.Cluster, *Timers)) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		for _, n := range nodes {
			c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: n}})
		}
		timers := New(Config{Store: c.Store, Proposer: c, Endless: endless})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- timers.Run(ctx) }()
		synctest.Wait()
		story(c, timers)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func status(c *localstate.Cluster, id ids.Node) string {
	return c.Store.Snapshot().Node(nil, id).Status
}

func TestASilentNodeGoesDownAndOneThatBeatsDoesNot(t *testing.T) {
	withTimers(t, false, []ids.Node{"loud", "silent"}, func(c *localstate.Cluster, timers *Timers) {
		for range 5 {
			time.Sleep(5 * time.Second)
			if ttl := timers.Beat("loud"); ttl != DefaultTTL {
				t.Errorf("told %s", ttl)
			}
		}
		synctest.Wait()
		if status(c, "silent") != node.StatusDown || status(c, "loud") != node.StatusReady {
			t.Errorf("silent is %s, loud is %s", status(c, "silent"), status(c, "loud"))
		}
		c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "silent"}})
		timers.Beat("silent")
		time.Sleep(DefaultTTL + DefaultGrace - time.Second)
		if status(c, "silent") != node.StatusReady {
			t.Error("a node that came back has no full grace")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if status(c, "silent") != node.StatusDown {
			t.Error("a node that came back is not watched over")
		}
	})
}

func TestInDevelopmentANodeThatWasHeardStaysUp(t *testing.T) {
	withTimers(t, true, []ids.Node{"mine", "of an earlier run"}, func(c *localstate.Cluster, timers *Timers) {
		timers.Beat("mine")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if status(c, "mine") != node.StatusReady {
			t.Error("the node of this process went down")
		}
		if status(c, "of an earlier run") != node.StatusDown {
			t.Error("a node that nobody runs any more would get work")
		}
	})
}

func TestANewLeaderGivesEveryNodeAFullGrace(t *testing.T) {
	withTimers(t, false, []ids.Node{"n"}, func(c *localstate.Cluster, _ *Timers) {
		time.Sleep(DefaultTTL + DefaultGrace - time.Millisecond)
		synctest.Wait()
		if status(c, "n") != node.StatusReady {
			t.Error("it went down too early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if status(c, "n") != node.StatusDown {
			t.Error("it did not go down")
		}
	})
}
