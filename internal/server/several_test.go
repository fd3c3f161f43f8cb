package server_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// jobOf is a job that asks for nothing.
func jobOf(id ids.Job) *job.Job {
	return &job.Job{
		Region:      "global",
		Namespace:   ids.DefaultNamespace,
		ID:          id,
		Name:        string(id),
		Type:        job.TypeService,
		NodePool:    "default",
		Priority:    50,
		Datacenters: []string{"*"},
		TaskGroups: []*job.TaskGroup{{
			Name:          "g",
			Count:         1,
			EphemeralDisk: &job.EphemeralDisk{SizeMB: 10},
			Tasks: []*job.Task{{
				Name:      "t",
				Driver:    "exec",
				Config:    map[string]any{"command": "/bin/true"},
				Resources: &job.Resources{CPU: 10, MemoryMB: 10},
			}},
		}},
	}
}

func register(t testing.TB, m *servers.Member, id ids.Job) uint64 {
	t.Helper()
	reply, err := wire.JobRegister.Call(t.Context(), m.Conn, &wire.JobRegisterRequest{Job: jobOf(id)})
	if err != nil {
		t.Fatalf("%s: %v", m.Name, err)
	}
	return reply.JobModifyIndex
}

// Given three servers, when a job is registered with any of them, then all of them know it: with the one that leads it
// is written, the others pass it on.
func TestAnyServerTakesWhatTheLeaderWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		if c.Leader() == nil {
			t.Fatal("no server leads")
		}
		for _, m := range c.Members {
			register(t, m, ids.Job("by-"+m.Name))
		}
		for _, m := range c.Members {
			list, err := wire.JobList.Call(t.Context(), m.Conn, &wire.Query{Namespace: wire.AllNamespaces})
			if err != nil || len(list.Items) != 3 || !list.KnownLeader {
				t.Errorf("%s lists %d jobs, %v", m.Name, len(list.Items), err)
			}
		}
	})
}

func listed(t *testing.T, m *servers.Member, stale bool) *wire.List[*wire.JobView] {
	t.Helper()
	list, err := wire.JobList.Call(t.Context(), m.Conn, &wire.Query{Namespace: wire.AllNamespaces, Stale: stale})
	if err != nil {
		t.Fatalf("%s: %v", m.Name, err)
	}
	return list
}

// Given three servers, when the one that leads stops, then another leads, calls to either of the others are answered,
// and nothing that was acknowledged is lost; when it comes back it has what was written meanwhile.
func TestALeaderThatStopsIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		first := c.Leader()
		register(t, c.Follower(), "before")
		first.Stop()
		for _, m := range c.Members {
			if m != first {
				register(t, m, ids.Job("by-"+m.Name))
			}
		}
		first.Start()
		if n := len(listed(t, first, false).Items); n != 3 {
			t.Errorf("the server that is back lists %d jobs", n)
		}
	})
}

// Given three servers, when the one that leads stands still, then what was asked by way of another is not kept waiting
// for it once a new one leads: a write hears that it may have been done, a read that waits ends, and both are answered
// when they are asked again.
func TestALeaderThatStandsStillKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		first, by := c.Leader(), c.Follower()
		register(t, by, "before")
		at := listed(t, by, false).Index
		c.Hold(first)
		frozen := time.Now()
		errs := make(chan error, 2)
		go func() {
			errs <- second(wire.JobRegister.Call(t.Context(), by.Conn, &wire.JobRegisterRequest{Job: jobOf("lost")}))
		}()
		go func() {
			errs <- second(wire.JobList.Call(t.Context(), by.Conn,
				&wire.Query{Namespace: wire.AllNamespaces, MinIndex: at, Wait: time.Minute}))
		}()
		for range 2 {
			if err := <-errs; !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), "is silent") {
				t.Errorf("what waits for a leader that stands still ends with %v", err)
			}
		}
		register(t, by, "after")
		if took := time.Since(frozen); took > 8*time.Second {
			t.Errorf("it took %s until a write was done", took)
		}
		c.Release()
		if n := len(listed(t, first, false).Items); n != 2 {
			t.Errorf("the server that stood still lists %d jobs", n)
		}
	})
}

// Given a server that is cut off from the others, then it answers what may be old, and says how old and that it knows
// no leader; whatever must be true it does not answer, even if it led until now, and a read that waited there is not
// answered from its state either.
func TestAServerThatIsCutOffSaysSo(t *testing.T) {
	for name, leads := range map[string]bool{"the leader": true, "a follower": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := servers.Start(t, 3)
				lone := c.Leader()
				if !leads {
					lone = c.Follower()
				}
				register(t, lone, "old")
				synctest.Wait()
				waited := make(chan error, 1)
				at := listed(t, lone, false).Index
				go func() {
					_, err := wire.JobList.Call(t.Context(), lone.Conn,
						&wire.Query{Namespace: wire.AllNamespaces, MinIndex: at, Wait: time.Minute})
					waited <- err
				}()
				synctest.Wait()
				c.Cut(lone)
				time.Sleep(30 * time.Second)
				if err := <-waited; !fault.Has(err, fault.Unavailable) {
					t.Errorf("what waited there was answered with %v", err)
				}
				register(t, c.Leader(lone), "new")
				old := listed(t, lone, true)
				if len(old.Items) != 1 || old.KnownLeader || old.LastContact < 20*time.Second {
					t.Errorf("it lists %d jobs, leader known: %t, heard from it %s ago",
						len(old.Items), old.KnownLeader, old.LastContact)
				}
				write := &wire.JobRegisterRequest{Job: jobOf("x")}
				for what, err := range map[string]error{
					"a list":       second(wire.JobList.Call(t.Context(), lone.Conn, &wire.Query{})),
					"a write":      second(wire.JobRegister.Call(t.Context(), lone.Conn, write)),
					"confirmation": lone.Confirm(t.Context()),
				} {
					if !fault.Has(err, fault.Unavailable) {
						t.Errorf("%s: it answers with %v", what, err)
					}
				}
				c.Heal()
				if n := len(listed(t, lone, false).Items); n != 2 {
					t.Errorf("when it is back it lists %d jobs", n)
				}
			})
		})
	}
}

func second[T any](_ T, err error) error { return err }

// Given servers that have applied the same log, then what each would write as its snapshot is the same, byte for byte.
func TestServersThatAppliedTheSameHaveTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		for i, m := range []*servers.Member{c.Leader(), c.Follower(), c.Leader()} {
			register(t, m, ids.Job(fmt.Sprintf("j%d", i)))
		}
		c.Leader().Stop()
		register(t, c.Leader(), "last")
		for _, m := range c.Members {
			if !m.Runs() {
				m.Start()
			}
		}
		listed(t, c.Follower(), false)
		time.Sleep(time.Minute)
		var first []byte
		for _, m := range c.Members {
			var out bytes.Buffer
			if err := m.Store().Snapshot().Persist(&out); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = out.Bytes()
			}
			if !bytes.Equal(first, out.Bytes()) || out.Len() == 0 {
				t.Errorf("%s has another state than %s", m.Name, c.Members[0].Name)
			}
		}
	})
}
