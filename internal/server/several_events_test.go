package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/raftlog"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// jobEvents reads the events of jobs up to the one of a job, as "index key".
func jobEvents(t *testing.T, s *wire.Stream[wire.Empty, wire.EventBatch], last ids.Job) (out []string) {
	t.Helper()
	for {
		b, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			out = append(out, fmt.Sprint(b.Index, " ", e.Key))
			if e.Key == string(last) {
				return out
			}
		}
	}
}

func followJobs(ctx context.Context, t *testing.T, m *servers.Member) *wire.Stream[wire.Empty, wire.EventBatch] {
	t.Helper()
	req := &wire.EventRequest{Namespace: wire.AllNamespaces, Topics: map[string][]string{wire.TopicJob: {"*"}}}
	s, err := wire.EventStream.Open(wire.For(ctx, wire.Person{Local: true}), m.Conn, req)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEveryServerSendsTheSameEvents: whoever follows a server that does not lead gets what who follows the leader gets,
// by the same indexes, and goes on while another server comes to lead.
func TestEveryServerSendsTheSameEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := servers.Start(t, 3)
		follower := c.Follower()
		there := followJobs(ctx, t, follower)
		for i := range 5 {
			register(t, c.Leader(), ids.Job(fmt.Sprint("j", i)))
		}
		here := followJobs(ctx, t, c.Leader())
		a, b := jobEvents(t, here, "j4"), jobEvents(t, there, "j4")
		if strings.Join(a, ", ") != strings.Join(b, ", ") || len(a) != 5 {
			t.Errorf("the leader sends %v, another server %v", a, b)
		}
		c.Leader().Stop()
		time.Sleep(time.Minute)
		if register(t, c.Leader(), "later"); len(jobEvents(t, there, "later")) != 1 {
			t.Error("it does not go on with the next leader")
		}
	})
}

// TestAReplacedStateEndsItsStreams: who follows a server that takes over the snapshot of another hears that he has to
// read anew what there is.
func TestAReplacedStateEndsItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := servers.StartWith(t, 3, raftlog.Config{SnapshotThreshold: 20, TrailingLogs: 5})
		behind := c.Follower()
		s := followJobs(ctx, t, behind)
		c.Cut(behind)
		for i := range 60 {
			register(t, c.Leader(behind), ids.Job(fmt.Sprint("j", i)))
		}
		time.Sleep(2 * time.Minute) // the others write their snapshots, and forget the entries before
		c.Heal()
		for {
			if _, err := s.Recv(); err != nil {
				if !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), "the state was replaced") {
					t.Errorf("it ends with %v", err)
				}
				return
			}
		}
	})
}
