package server_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/raftlog"
	"berth/internal/port/tlsport"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// spoil changes a byte of the entry that registered a job, in the log of a server that does not run.
func spoil(t *testing.T, m *servers.Member, id ids.Job) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(m.Dir(), "raft", "wal", "*.wal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range segments {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(data, []byte(id))
		if at < 0 {
			continue
		}
		data[at] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("the log of %s does not have %s", m.Name, id)
}

// Given servers whose logs were damaged while they were down, one of them or all in different places, when they start,
// then they get from each other what they lack, say so, and have the same state.
func TestServersMendEachOthersLogs(t *testing.T) {
	jobs := []ids.Job{"first-of-all", "second-of-all", "third-of-all"}
	for name, n := range map[string]int{"one": 1, "all": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := servers.StartWith(t, 3, raftlog.Config{SegmentSize: 1 << 20, Reserve: 1 << 20})
				for _, id := range append(jobs, "last") {
					register(t, c.Leader(), id)
				}
				time.Sleep(time.Minute) // all have it
				for _, m := range c.Members {
					m.Stop()
				}
				for i, m := range c.Members[:n] {
					spoil(t, m, jobs[i])
				}
				for _, m := range c.Members {
					m.Start()
				}
				if c.Leader() == nil {
					t.Fatalf("no server leads; %s says:\n%s", c.Members[0].Name, c.Members[0].Said())
				}
				register(t, c.Leader(), "after")
				time.Sleep(time.Minute)
				want := stateOf(t, c.Leader())
				for i, m := range c.Members {
					if got := len(listed(t, m, true).Items); got != len(jobs)+2 || !bytes.Equal(stateOf(t, m), want) {
						t.Errorf("%s lists %d jobs, its state is the leader's: %t", m.Name, got,
							bytes.Equal(stateOf(t, m), want))
					}
					if i < n && !strings.Contains(m.Said(), "the log is mended") {
						t.Errorf("%s does not say that its log is mended:\n%s", m.Name, m.Said())
					}
				}
			})
		})
	}
}

// Given a server that was so long away that the others have dropped what it lacks, and whose log is damaged at its end,
// when it starts, then it takes the snapshot of the one that leads.
func TestAServerTakesASnapshotForWhatItsLogLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.StartWith(t, 3, raftlog.Config{SegmentSize: 1 << 20, Reserve: 1 << 20, TrailingLogs: 1})
		away := c.Follower()
		register(t, c.Leader(), "old")
		time.Sleep(time.Minute)
		away.Stop()
		spoil(t, away, "old")
		for _, id := range []ids.Job{"n1", "n2", "n3"} {
			register(t, c.Leader(), id)
		}
		for _, m := range c.Members {
			if m != away {
				if err := m.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		away.Start()
		time.Sleep(time.Minute)
		if n := len(listed(t, away, true).Items); n != 4 || !strings.Contains(away.Said(), "the log is mended") {
			t.Errorf("it lists %d jobs, and says:\n%s", n, away.Said())
		}
	})
}

// TestTheLogIsShownToServersAlone: who comes with a node's certificate, or as a person, gets nothing of the log.
func TestTheLogIsShownToServersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 1)
		m := c.Leader()
		cred := c.Trust.Node(t, ids.New())
		node, err := wire.Connect(func(ctx context.Context) (net.Conn, error) {
			return c.DialAs(ctx, "node", m, tlsport.Calls, cred)
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = node.Close() }() // in-process
		person := wire.For(t.Context(), wire.Person{Name: "p", Local: true})
		for who, call := range map[string]struct {
			ctx context.Context
			by  wire.Conn
		}{"a person": {person, m.Conn}, "a node": {t.Context(), node}} {
			_, err := wire.ServerEntries.Call(call.ctx, call.by, &wire.EntriesRequest{From: 1})
			if !fault.Has(err, fault.Denied) {
				t.Errorf("%s asks for entries: %v", who, err)
			}
			stream, err := wire.ServerSnapshot.Open(call.ctx, call.by, &wire.Empty{})
			if err == nil {
				_, err = stream.Recv()
			}
			if !fault.Has(err, fault.Denied) {
				t.Errorf("%s asks for a snapshot: %v", who, err)
			}
		}
	})
}
