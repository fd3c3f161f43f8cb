package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// Given three servers, when two are lost one after the other, then the last says once who is missing, and that it is
// over when one is back; the library's elections, of which there is one each second, are detail.
func TestAServerWithoutAMajoritySaysOnceWhoIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		lone := c.Follower()
		var others []*servers.Member
		for _, m := range c.Members {
			if m != lone {
				others = append(others, m)
				register(t, m, "a")
			}
		}
		others[0].Stop()
		register(t, lone, "b")
		before := len(lone.Said())
		others[1].Stop()
		time.Sleep(5 * time.Minute)
		said := lone.Said()[before:]
		const none = `level=WARN msg="no server leads: 2 of 3 are needed, and 1 answer`
		if n := strings.Count(said, none); n != 1 {
			t.Errorf("that no server leads is said %d times:\n%s", n, said)
		}
		for _, m := range others {
			if !strings.Contains(said, m.Name+" since ") {
				t.Errorf("nothing names %s as missing:\n%s", m.Name, said)
			}
		}
		if strings.Contains(said, "library=raft") {
			t.Errorf("the library's elections are said:\n%s", said)
		}
		status, err := wire.SystemStatus.Call(t.Context(), lone.Conn, &wire.Empty{})
		if err != nil || !strings.Contains(status.Leaderless, ", missing: s") {
			t.Errorf("its status says %+v, %v", status, err)
		}
		others[0].Start()
		register(t, lone, "c")
		time.Sleep(time.Minute)
		said = lone.Said()[before:]
		if n := strings.Count(said, `msg="a server leads again"`); n != 1 {
			t.Errorf("that it is over is said %d times:\n%s", n, said)
		}
		if n := strings.Count(said, "msg=\"no server leads"); n != 1 {
			t.Errorf("that no server leads is said %d times:\n%s", n, said)
		}
	})
}

// Given a server that was cut off from its majority just now, so that its lease is over, or a while ago, then a read
// that must be true ends within five seconds by an error that names those who are missing.
func TestAReadWithoutAMajorityEndsSoon(t *testing.T) {
	for name, leads := range map[string]bool{"the leader": true, "a follower": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := servers.Start(t, 3)
				lone := c.Leader()
				if !leads {
					lone = c.Follower()
				}
				register(t, lone, "old")
				c.Cut(lone)
				for _, wait := range []time.Duration{2 * time.Second, time.Minute} {
					time.Sleep(wait)
					begun := time.Now()
					_, err := wire.JobList.Call(t.Context(), lone.Conn, &wire.Query{})
					if took := time.Since(begun); !fault.Has(err, fault.Unavailable) || took > 5*time.Second {
						t.Errorf("after %s it answers with %v", took, err)
					}
					for _, m := range c.Members {
						if m != lone && (err == nil || !strings.Contains(err.Error(), m.Name+" since ")) {
							t.Errorf("it does not say that %s is missing: %v", m.Name, err)
						}
					}
				}
			})
		})
	}
}
