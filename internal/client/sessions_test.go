package client_test

import (
	"slices"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/wire"
)

// TestEachAgentStartFollowsTheOneBefore: also the ones whose registration was never answered, which the servers may
// have accepted.
func TestEachAgentStartFollowsTheOneBefore(t *testing.T) {
	r := newRig(t)
	first := r.start()
	<-first.Registered()
	a, _ := r.servers.started()
	first.stop()
	if len(a.Previous) != 0 || a.Next == "" || a.Machine.Boot == "" {
		t.Fatalf("the first start is %+v", a)
	}
	r.servers.change(func() { r.servers.lost = true })
	_, before := r.servers.started()
	second := r.start()
	eventually(t, "it has registered twice", func() bool { _, n := r.servers.started(); return n >= before+2 })
	b, _ := r.servers.started()
	second.stop()
	if b.Next == a.Next || !slices.Equal(b.Previous, []string{a.Next}) || b.At.Mark != "m1" {
		t.Errorf("the second start is %+v, after %+v", b, a)
	}
	r.servers.change(func() { r.servers.lost = false })
	third := r.start()
	<-third.Registered()
	c, n := r.servers.started()
	slices.Sort(c.Previous)
	both := []string{a.Next, b.Next}
	slices.Sort(both)
	if c.Next == b.Next || !slices.Equal(c.Previous, both) {
		t.Errorf("the third start is %+v, after %+v", c, b)
	}
	r.servers.change(func() { r.servers.again = true })
	eventually(t, "it registers again", func() bool { _, now := r.servers.started(); return now > n })
	if again, _ := r.servers.started(); again.Next != c.Next {
		t.Errorf("another epoch within one agent start: %+v, %+v", c, again)
	}
}

// TestARefusedAgentEndsNothingAndWaits: what runs goes on, nothing is asked of the servers but, rarely, to be accepted.
func TestARefusedAgentEndsNothingAndWaits(t *testing.T) {
	r := newRig(t)
	agent := r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	r.servers.change(func() {
		r.servers.refusal = wire.RefuseSession(agent.ID(), "another agent is obeyed", "stop this one")
	})
	eventually(t, "it knows that it is refused", func() bool { return agent.Refusal() != nil && !agent.Armed() })
	_, n := r.servers.started()
	time.Sleep(2 * time.Second) // twice its time to live
	if _, now := r.servers.started(); now != n {
		t.Errorf("it asked %d times more", now-n)
	}
	if got := r.mock.Alive(); !slices.Equal(got, []string{"web.1"}) {
		t.Errorf("alive: %v", got)
	}
}

// Given servers whose state was restored and does not know the node's session, when the node follows its allocs, then
// it registers by that answer, and waits for no heartbeat to be told.
func TestANodeWhoseSessionIsUnknownRegistersAtOnce(t *testing.T) {
	r := newRig(t)
	agent := r.start()
	eventually(t, "the node is armed", agent.Armed)
	_, n := r.servers.started()
	r.servers.change(func() { r.servers.unknown = true })
	eventually(t, "it registers again", func() bool { _, now := r.servers.started(); return now > n })
	eventually(t, "the node is armed again", agent.Armed)
}

// TestAnAgentThatEndsWithNothingSaysSo: and one whose tasks go on does not.
func TestAnAgentThatEndsWithNothingSaysSo(t *testing.T) {
	r := newRig(t)
	left := func() (n int) { r.servers.change(func() { n = r.servers.left }); return n }
	first := r.start()
	<-first.Registered()
	first.stop()
	if left() != 1 {
		t.Error("nothing is left of it, and it does not say so")
	}
	second := r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	second.stop()
	if left() != 1 {
		t.Error("its task runs, and it says that nothing is left")
	}
}

// TestWhatTheServersCallUnknownIsReported: given an alloc that runs and was reported so, when the servers say that it
// is unknown, because they held the node for silent meanwhile, then it is reported again, however the node came back.
func TestWhatTheServersCallUnknownIsReported(t *testing.T) {
	r := newRig(t)
	r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	for range 2 {
		r.servers.edit(id, func(a *alloc.Alloc) {
			a.ClientStatus = alloc.ClientUnknown
			delete(r.servers.reported, id)
		})
		eventually(t, "it is reported", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	}
}

// TestARestoredStateHearsOfEveryAlloc: given allocs whose states the servers have acknowledged, one that runs and one
// that has ended, when the servers' state is put back to one of before that, by a restore or by their disks, of which
// the node hears when it follows its allocs, then both are reported again: that state would wait for ever for the end
// that it does not know.
func TestARestoredStateHearsOfEveryAlloc(t *testing.T) {
	t.Run("restored", func(t *testing.T) {
		hearsAll(t, func(s *fakeServers, _ func() bool) {
			s.change(func() {
				s.incarnation, s.unknown = "two", true
				clear(s.reported)
			})
		})
	})
	t.Run("shortened", func(t *testing.T) {
		hearsAll(t, func(s *fakeServers, armed func() bool) {
			s.change(func() { s.down = true })
			eventually(t, "the stream of allocs to end", func() bool { return !armed() })
			s.fork("another")
			s.change(func() {
				s.down = false
				clear(s.reported)
			})
		})
	})
}

func hearsAll(t *testing.T, putBack func(s *fakeServers, armed func() bool)) {
	t.Helper()
	r := newRig(t)
	agent := r.start()
	runs := r.servers.place(service(task("web", nil)))
	ended := r.servers.place(service(task("once", map[string]any{"run_for": "1ms"})))
	is := func(id ids.Alloc, want string) func() bool {
		return func() bool { return r.servers.status(id) == want }
	}
	eventually(t, "it runs", is(runs, alloc.ClientRunning))
	r.servers.edit(ended, func(a *alloc.Alloc) { a.DesiredStatus = alloc.DesiredStop })
	eventually(t, "it has ended", is(ended, alloc.ClientComplete))
	putBack(r.servers, agent.Armed)
	eventually(t, "the restored state hears that it runs", is(runs, alloc.ClientRunning))
	eventually(t, "the restored state hears that it has ended", is(ended, alloc.ClientComplete))
	agent.stop()
}
