package heartbeat

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// proposer does something before each command.
type proposer struct {
	*localstate.Cluster
	before func() error
}

// Propose implements fsm.Proposer.
func (p *proposer) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	if err := p.before(); err != nil {
		return nil, 0, err
	}
	return p.Cluster.Propose(ctx, cmd)
}

// over runs timers over nodes, with a proposer that does something before each command, until story ends.
func over(t *testing.T, nodes []ids.Node, before func(*Timers) error, story func(*localstate.Cluster, *Timers)) {
	synctest.Test(t, func(t *testing.T) {
		c := localstate.New(t)
		for _, n := range nodes {
			c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: n}})
		}
		p := &proposer{Cluster: c}
		timers := New(Config{Store: c.Store, Proposer: p})
		p.before = func() error { return before(timers) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- timers.Run(ctx) }()
		synctest.Wait()
		story(c, timers)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if lasts, rest := timers.Silence(nodes[0]); lasts != 0 || rest != timers.Limit() {
			t.Errorf("who leads no more says that a node is silent for %s, and for %s to come", lasts, rest)
		}
	})
}

// Given a command that takes a silent node down and is not committed, then it is proposed again until it is.
func TestASilentNodeGoesDownAlsoAtTheSecondTry(t *testing.T) {
	tries := 0
	over(t, []ids.Node{"n"}, func(*Timers) error {
		if tries++; tries < 3 {
			return errors.New("no leader")
		}
		return nil
	}, func(c *localstate.Cluster, timers *Timers) {
		time.Sleep(timers.Limit() + 3*retryPause)
		synctest.Wait()
		if status(c, "n") != node.StatusDown || tries != 3 {
			t.Errorf("after %d tries it is %s", tries, status(c, "n"))
		}
	})
}

// Given a node that is heard while it is taken down, when it has come back and falls silent again, then it goes down
// again, a full time after it was heard.
func TestWhoIsHeardWhileTakenDownIsWatchedOver(t *testing.T) {
	over(t, []ids.Node{"n"}, func(timers *Timers) error { timers.Beat("n"); return nil },
		func(c *localstate.Cluster, timers *Timers) {
			time.Sleep(timers.Limit() + time.Millisecond)
			synctest.Wait()
			if status(c, "n") != node.StatusDown {
				t.Fatal("it did not go down")
			}
			c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: "n"}})
			time.Sleep(timers.Limit() + time.Second)
			synctest.Wait()
			if status(c, "n") != node.StatusDown {
				t.Error("nobody watches over it any more")
			}
		})
}

// Given a few nodes that beat at any times, for long, and come back when they went down, then each is down exactly when
// nothing was heard of it for a full time.
func TestEachNodeHasItsOwnTime(t *testing.T) {
	const beats = 3000
	r := rand.New(rand.NewPCG(7, 7))
	all := []ids.Node{"a", "b", "c", "d", "e", "f", "g"}
	over(t, all, func(*Timers) error { return nil }, func(c *localstate.Cluster, timers *Timers) {
		last := map[ids.Node]time.Time{}
		for _, n := range all {
			last[n] = time.Now()
		}
		for range beats {
			time.Sleep(time.Duration(1+r.IntN(3000)) * time.Millisecond)
			synctest.Wait()
			for _, n := range all {
				is, lasts := status(c, n), time.Since(last[n])
				if down := lasts > timers.Limit(); down != (is == node.StatusDown) && lasts != timers.Limit() {
					t.Fatalf("%s was heard %s ago, and is %s", n, lasts, is)
				}
			}
			n := all[r.IntN(len(all))]
			if status(c, n) == node.StatusDown {
				c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: n}})
			}
			timers.Beat(n)
			last[n] = time.Now()
		}
	})
}
