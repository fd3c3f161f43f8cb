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

// TestAReplacedStateEndsItsStreams: when a saved state takes the place of the servers', who follows any of them hears
// that he has to read anew what there is.
func TestAReplacedStateEndsItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := servers.Start(t, 3)
		register(t, c.Leader(), "j")
		root := wire.For(ctx, wire.Person{Local: true})
		save, err := wire.StateSave.Open(root, c.Leader().Conn, &wire.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		var file []byte
		for last := false; !last; {
			chunk, err := save.Recv()
			if err != nil {
				t.Fatal(err)
			}
			file, last = append(file, chunk.Data...), chunk.Last
		}
		streams := map[string]*wire.Stream[wire.Empty, wire.EventBatch]{}
		for _, m := range c.Members {
			streams[m.Name] = followJobs(ctx, t, m)
			jobEvents(t, streams[m.Name], "j")
		}
		back, err := wire.StateRestore.Open(root, c.Leader().Conn, &wire.RecoveryWord{By: "a test"})
		if err != nil {
			t.Fatal(err)
		}
		if err := back.Send(&wire.StateChunk{Data: file, Last: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := back.Recv(); err != nil {
			t.Fatal(err)
		}
		for name, s := range streams {
			var err error
			for err == nil {
				_, err = s.Recv()
			}
			if !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), "the state was replaced") {
				t.Errorf("%s ends it with %v", name, err)
			}
		}
	})
}
