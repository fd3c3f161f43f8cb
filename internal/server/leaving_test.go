package server_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/retry"
	"berth/internal/model/trust"
	"berth/internal/server/fsm/joining"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// listServers has each server in the list.
func listServers(t *testing.T, c *servers.Cluster) {
	t.Helper()
	lead := c.Leader()
	if lead == nil {
		t.Fatal("no server leads")
	}
	for _, m := range c.Members {
		put := &joining.ServerPut{Name: m.Name, Address: m.Name + ":4647", Key: trust.KeyID(m.Name), Leads: true}
		if _, _, err := lead.Propose(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // all know of all
}

// leave is what an agent does whose server is to leave, from what it knew when it was asked; the error is why it stays.
func leave(t *testing.T, m *servers.Member, asOf uint64) error {
	for tries := 1; ; tries++ {
		_, err := wire.ServerLeave.Call(t.Context(), m.Conn, &wire.LeaveRequest{Name: m.Name, AsOf: asOf})
		again := fault.Has(err, fault.Unavailable) || fault.Has(err, fault.NotReady) || fault.Has(err, fault.Timeout)
		if !again || tries > 20 {
			return err
		}
		retry.Sleep(t.Context(), time.Duration(1+rand.IntN(300))*time.Millisecond)
	}
}

// Given servers that are all asked to leave at once, while jobs are registered, when they have stopped, then a majority
// of those that were there has stayed; these lead again when they are started, and know every job that was
// acknowledged.
func TestServersThatAreAllAskedToLeaveAtOnceStay(t *testing.T) {
	for _, count := range []int{2, 3, 5} {
		for round := range 4 {
			t.Run(fmt.Sprintf("%d servers, round %d", count, round+1), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { allLeave(t, count) })
			})
		}
	}
}

func allLeave(t *testing.T, count int) {
	c := servers.Start(t, count)
	listServers(t, c)
	var mu sync.Mutex
	var acknowledged []ids.Job
	refused := map[string]error{}
	var wait sync.WaitGroup
	for _, m := range c.Members {
		asOf, _ := m.Leaves()
		conn := m.Conn
		wait.Add(2)
		go func() {
			defer wait.Done()
			for i := range 20 {
				id := ids.Job(fmt.Sprintf("%s-%d", m.Name, i))
				_, err := wire.JobRegister.Call(t.Context(), conn, &wire.JobRegisterRequest{Job: jobOf(id)})
				if err == nil {
					mu.Lock()
					acknowledged = append(acknowledged, id)
					mu.Unlock()
				}
			}
		}()
		go func() {
			defer wait.Done()
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			if err := leave(t, m, asOf); err != nil {
				m.Stops()
				mu.Lock()
				refused[m.Name] = err
				mu.Unlock()
			}
			m.Stop()
		}()
	}
	wait.Wait()
	if len(refused)*2 <= count {
		t.Errorf("of %d servers %d stayed", count, len(refused))
	}
	for _, m := range c.Members {
		if refused[m.Name] != nil {
			m.Start()
		}
	}
	lead := c.Leader()
	if lead == nil {
		t.Fatalf("of those that stayed none leads: %v", refused)
	}
	register(t, lead, "after")
	known := map[ids.Job]bool{}
	for _, j := range listed(t, lead, false).Items {
		known[j.Job.ID] = true
	}
	for _, id := range acknowledged {
		if !known[id] {
			t.Errorf("job %s was acknowledged and is lost", id)
		}
	}
}

// Given servers that are asked to leave one after another, then all do but the last; and one of two that are asked
// while a third is dead stays.
func TestServersLeaveOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		listServers(t, c)
		for left, m := range c.Members {
			time.Sleep(time.Second) // it knows who has left
			asOf, _ := m.Leaves()
			err := leave(t, m, asOf)
			if last := left == 2; last != (err != nil) || last && !fault.Has(err, fault.Conflict) {
				t.Fatalf("%s: %v", m.Name, err)
			}
			if err == nil {
				m.Stop()
			}
		}
		register(t, c.Leader(), "after")
	})
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		listServers(t, c)
		leader := c.Leader()
		var rest []*servers.Member
		for _, m := range c.Members {
			if m != leader {
				rest = append(rest, m)
			}
		}
		rest[0].Stops() // it is about to stop, and answers yet
		asOf, _ := rest[1].Leaves()
		if err := leave(t, rest[1], asOf); !fault.Has(err, fault.Conflict) {
			t.Errorf("of three, with one that stops: %v", err)
		}
		if _, err := wire.ServerRemove.Call(t.Context(), leader.Conn, &wire.ServerRef{Name: rest[1].Name}); err == nil {
			t.Error("a person removes one of the two that answer")
		}
		other := &wire.LeaveRequest{Name: rest[1].Name}
		if _, err := wire.ServerLeave.Call(t.Context(), leader.Conn, other); !fault.Has(err, fault.Denied) {
			t.Error("one speaks for another")
		}
	})
}

// Given a server that a person removes while it leads, then another one leads and has removed it: a vote is not
// counted that the state says is gone.
func TestTheOneThatLeadsIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		listServers(t, c)
		old := c.Leader()
		if _, err := wire.ServerRemove.Call(t.Context(), old.Conn, &wire.ServerRef{Name: old.Name}); err != nil {
			t.Fatal(err)
		}
		lead := c.Leader(old)
		for range 100 {
			list, err := wire.ServerList.Call(t.Context(), lead.Conn, &wire.Query{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list.Servers {
				if s.Name == old.Name && !s.Removed.IsZero() && s.Voter {
					t.Fatal("it is removed, and votes")
				}
				if s.Name == old.Name && !s.Removed.IsZero() && !s.Member {
					return
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error("it keeps the log yet")
	})
}
