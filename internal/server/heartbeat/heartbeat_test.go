package heartbeat

import (
	"context"
	"slices"
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

// Given a server that stands still for longer than the nodes' time to live, when it goes on, then what was said to it
// meanwhile is not taken for silence, and who stays silent goes down a full time later.
func TestAServerThatStoodStillGivesEveryNodeAFullTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		for _, n := range []ids.Node{"long gone", "beating"} {
			c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: n}})
		}
		timers := New(Config{Store: c.Store, Proposer: &stuck{Cluster: c, first: time.Minute}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- timers.Run(ctx) }()
		synctest.Wait()
		time.Sleep(DefaultTTL)
		timers.Beat("beating")
		time.Sleep(DefaultGrace + time.Minute) // the first to go down keeps the loop for a minute
		synctest.Wait()
		if status(c, "long gone") != node.StatusDown {
			t.Error("the silent node is up")
		}
		time.Sleep(DefaultTTL + DefaultGrace - time.Second)
		synctest.Wait()
		if status(c, "beating") != node.StatusReady {
			t.Error("a node went down because nobody listened")
		}
		if _, rest := timers.Silence("beating"); rest <= 0 {
			t.Error("a node counts as silent for a time in which nobody listened")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if status(c, "beating") != node.StatusDown {
			t.Error("nobody watches over the node any more")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// stuck takes long for its first command.
type stuck struct {
	*localstate.Cluster
	first time.Duration
}

// Propose implements fsm.Proposer.
func (s *stuck) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	time.Sleep(s.first)
	s.first = 0
	return s.Cluster.Propose(ctx, cmd)
}

// The silence of a node is measured from its last beat, and by nobody but a leader that listened all the time.
func TestTheSilenceOfANodeIsMeasuredByWhoListened(t *testing.T) {
	withTimers(t, true, []ids.Node{"n"}, func(_ *localstate.Cluster, timers *Timers) {
		lasts := func(want, wantRest time.Duration) {
			t.Helper()
			if got, rest := timers.Silence("n"); got != want || rest != wantRest {
				t.Errorf("silent for %s, %s are left; want %s and %s", got, rest, want, wantRest)
			}
		}
		lasts(0, timers.Limit())
		time.Sleep(time.Second)
		lasts(time.Second, timers.Limit()-time.Second)
		timers.Beat("n")
		lasts(0, timers.Limit())
		time.Sleep(timers.Limit())
		lasts(timers.Limit(), 0)
	})
	if _, rest := New(Config{}).Silence("n"); rest == 0 {
		t.Error("a server that does not lead calls a node silent")
	}
}

// What has not passed hides all that is later: a look costs what it finds, not what there is. The nodes beneath are
// nil, so that looking at one panics.
func TestALookAtTheDeadlinesCostsWhatItFinds(t *testing.T) {
	now := time.Now()
	at := func(id ids.Node, rest time.Duration) *deadline { return &deadline{node: id, at: now.Add(rest)} }
	l := timeline{at("a", -2), at("b", 1), at("c", -1), nil, nil, at("d", 5), at("e", 0)}
	got := l.due(0, now, nil)
	if slices.Sort(got); !slices.Equal(got, []ids.Node{"a", "c", "e"}) {
		t.Errorf("due: %v", got)
	}
}
