package server_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/raftlog"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// stateOf is what a server would write as its snapshot.
func stateOf(t *testing.T, m *servers.Member) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := m.Store().Snapshot().Persist(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// snapshots are those that a server has on disk.
func snapshots(t *testing.T, m *servers.Member) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(m.Dir(), "raft", "snapshots", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Given a server that was away while the others wrote more than they keep in their logs, when it comes back, then it
// takes over their snapshot and what was written since, has the same state byte for byte, and can lead.
func TestAServerThatFellBehindCatchesUpBySnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.StartWith(t, 3, raftlog.Config{SnapshotThreshold: 20, TrailingLogs: 5})
		away := c.Follower()
		away.Stop()
		if all := snapshots(t, away); len(all) > 0 {
			t.Fatalf("it has written %q itself", all)
		}
		for i := range 60 {
			register(t, c.Leader(), ids.Job(fmt.Sprintf("j%d", i)))
		}
		time.Sleep(2 * time.Minute) // the others write their snapshots, and forget the entries before
		register(t, c.Leader(), "since")
		away.Start()
		time.Sleep(time.Minute)
		if len(snapshots(t, away)) == 0 {
			t.Error("it took no snapshot over")
		}
		if !bytes.Equal(stateOf(t, away), stateOf(t, c.Leader())) {
			t.Errorf("%s has another state than the leader", away.Name)
		}
		for _, m := range c.Members {
			if m != away && m == c.Leader() {
				m.Stop()
				break
			}
		}
		register(t, c.Leader(), "last")
		if n := len(listed(t, away, false).Items); n != 62 {
			t.Errorf("it lists %d jobs", n)
		}
	})
}

// Given a leader that is cut off from the other servers, and nodes that reach it all the same, when another one leads,
// then the former one gives out no permission to mount, tells no node what to run, and has no controller call made:
// what it had open ends, and what is opened anew is refused, so that the nodes go to the one that leads.
func TestAFormerLeaderGivesNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		former := c.Leader()
		a := connect(t, c, former)
		stream, _ := a.allocs(t)
		calls, err := wire.NodeControllerCalls.Open(t.Context(), a.conn,
			&wire.ControllerCallsRequest{NodeIdentity: a.NodeIdentity})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 2)
		go func() {
			_, err := stream.Recv()
			ended <- err
		}()
		go func() {
			_, err := calls.Recv()
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("while it leads, a stream ended with %v", err)
		default:
		}
		c.Cut(former)
		time.Sleep(30 * time.Second)
		for range 2 {
			select {
			case err := <-ended:
				if !fault.Has(err, fault.Unavailable) {
					t.Errorf("a stream of the former leader ended with %v", err)
				}
			default:
				t.Error("a stream of the former leader goes on")
			}
		}
		register(t, c.Leader(former), "new")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first := func(recv func() error, err error) error {
			if err != nil {
				return err
			}
			return recv()
		}
		again, openErr := wire.NodeAllocs.Open(ctx, a.conn, &wire.NodeAllocsRequest{NodeIdentity: a.NodeIdentity})
		more, moreErr := wire.NodeControllerCalls.Open(ctx, a.conn,
			&wire.ControllerCallsRequest{NodeIdentity: a.NodeIdentity})
		for what, err := range map[string]error{
			"its allocs":       first(func() error { return second(again.Recv()) }, openErr),
			"controller calls": first(func() error { return second(more.Recv()) }, moreErr),
			"permissions": second(wire.NodeGrants.Call(ctx, a.conn,
				&wire.GrantsRequest{NodeIdentity: a.NodeIdentity, Alloc: "a", Wait: time.Second})),
			"a beat": second(wire.NodeHeartbeat.Call(ctx, a.conn,
				&wire.NodeHeartbeatRequest{NodeIdentity: a.NodeIdentity})),
		} {
			if !fault.Has(err, fault.Unavailable) {
				t.Errorf("%s: the former leader answers with %v", what, err)
			}
		}
		if ctx.Err() != nil {
			t.Error("it kept the node waiting")
		}
	})
}
