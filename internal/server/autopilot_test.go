package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/model/autopilot"
	"berth/internal/model/trust"
	"berth/internal/server/fsm/joining"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// health is how the servers are by their names, as any of them says.
func health(t *testing.T, m *servers.Member) map[string]wire.ServerStatus {
	t.Helper()
	list, err := wire.ServerList.Call(t.Context(), m.Conn, &wire.Query{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]wire.ServerStatus{}
	for _, s := range list.Servers {
		out[s.Name] = s
	}
	return out
}

// says has the servers keep themselves in another way.
func says(t *testing.T, m *servers.Member, change func(*autopilot.Config)) {
	t.Helper()
	cfg := autopilot.Default()
	change(cfg)
	reply, err := wire.AutopilotPut.Call(t.Context(), m.Conn, &wire.AutopilotPutRequest{Config: *cfg})
	if err != nil || !reply.Holds {
		t.Fatalf("%+v, %v", reply, err)
	}
}

// Given three servers that are well, when one is cut off, then it is not well by the time that it has not answered, and
// since when that is; and when it comes back it lacks what was written meanwhile, until it has it.
func TestAServerIsWellByWhatOperatorsSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		leader, other := c.Leader(), c.Follower()
		says(t, other, func(a *autopilot.Config) { a.MaxTrailing = 3 })
		time.Sleep(time.Second)
		for name, s := range health(t, other) {
			if !s.Alive || s.Why != "" || s.Contact > 200*time.Millisecond {
				t.Errorf("%s: %+v", name, s)
			}
		}
		lone := c.Follower()
		c.Cut(lone)
		gone := time.Now()
		time.Sleep(10 * time.Second)
		for range 5 {
			register(t, leader, "more")
		}
		s := health(t, leader)[lone.Name]
		if s.Alive || s.Contact < 9*time.Second || s.Stable.Sub(gone).Abs() > time.Second {
			t.Errorf("it is cut off: %+v", s)
		}
		c.Heal()
		time.Sleep(10 * time.Second)
		if s := health(t, leader)[lone.Name]; !s.Alive || s.Why != "" || s.Stable.Before(gone) {
			t.Errorf("it is back: %+v", s)
		}
	})
}

// list writes servers into the list of the cluster, as the one that leads does of itself.
func list(t *testing.T, c *servers.Cluster) {
	t.Helper()
	for _, m := range c.Members {
		cmd := &joining.ServerPut{Name: m.Name, Key: "k-" + trust.KeyID(m.Name), Address: m.Name + ":4647", Leads: true}
		if _, _, err := c.Leader().Propose(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
	}
}

// Given four servers of which three are to be, when one that is no more answers has been silent for a minute, then it
// is taken off, and of the three that are left none is, however long it is silent; nor is one where somebody has said
// so.
func TestADeadServerIsTakenOffWhereOthersTookItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 4)
		list(t, c)
		says(t, c.Leader(), func(a *autopilot.Config) { a.MinQuorum, a.CleanupDead = 3, false })
		first, next := c.Follower(), (*servers.Member)(nil)
		c.Cut(first)
		time.Sleep(10 * time.Minute)
		if s := health(t, c.Leader(first))[first.Name]; !s.Removed.IsZero() || !s.Voter {
			t.Fatalf("it was taken off although nobody wants that: %+v", s)
		}
		says(t, c.Leader(first), func(a *autopilot.Config) { a.MinQuorum = 3 })
		time.Sleep(5 * time.Second)
		leader := c.Leader(first)
		if s := health(t, leader)[first.Name]; s.Removed.IsZero() || s.Member {
			t.Errorf("it is dead: %+v", s)
		}
		if !strings.Contains(leader.Said(), "a server that is dead was taken off") {
			t.Errorf("it says\n%s", leader.Said())
		}
		for _, m := range c.Members {
			if m != first && m != leader {
				next = m
			}
		}
		next.Crash()
		time.Sleep(10 * time.Minute)
		if s := health(t, leader)[next.Name]; !s.Removed.IsZero() || !s.Voter {
			t.Errorf("it was needed: %+v", s)
		}
		register(t, leader, "last")
	})
}

// Given four servers of which three are to be, when one is gone for less than a minute, then it stays.
func TestAServerThatStartsAgainStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 4)
		list(t, c)
		says(t, c.Leader(), func(a *autopilot.Config) { a.MinQuorum = 3 })
		m := c.Follower()
		m.Stop()
		time.Sleep(50 * time.Second)
		m.Start()
		time.Sleep(10 * time.Minute)
		if s := health(t, m)[m.Name]; !s.Removed.IsZero() || !s.Voter || !s.Alive {
			t.Errorf("%+v", s)
		}
	})
}
