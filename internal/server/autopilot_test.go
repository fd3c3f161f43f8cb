package server_test

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/model/autopilot"
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
