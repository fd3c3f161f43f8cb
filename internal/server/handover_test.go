package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/testkit/servers"
)

// leads waits until a server that runs leads, and returns for how long none did.
func leads(t *testing.T, c *servers.Cluster, but *servers.Member) time.Duration {
	t.Helper()
	begun := time.Now()
	for range 10_000 {
		for _, m := range c.Members {
			if m != but && m.Runs() && m.Leading() {
				return time.Since(begun)
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no server leads")
	return 0
}

// Given three servers, when each is stopped and started in turn, then each that leads has another one lead before it
// stops, and no time-out of an election passes.
func TestARollingRestartWaitsForNoElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		register(t, c.Leader(), "before")
		for range 3 {
			first := c.Leader()
			first.Stop()
			if took := leads(t, c, first); took > 200*time.Millisecond {
				t.Errorf("none led for %s after %s stopped", took, first.Name)
			}
			if !strings.Contains(first.Said(), "another one leads") {
				t.Errorf("%s says\n%s", first.Name, first.Said())
			}
			first.Start()
			time.Sleep(5 * time.Second)
		}
		register(t, c.Leader(), "after")
	})
}

// Given a server that leads and reaches no other one, when it is stopped, then it stops within a bounded time, and says
// that the others elect.
func TestALeaderThatReachesNobodyStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		first := c.Leader()
		for _, m := range c.Members {
			if m != first {
				c.Hold(m)
			}
		}
		begun := time.Now()
		first.Stop()
		// What the log has sent to one that stands still is given up after ten seconds.
		if took := time.Since(begun); took > 12*time.Second || !strings.Contains(first.Said(), "stops while it leads") {
			t.Errorf("it took %s, and says\n%s", took, first.Said())
		}
		c.Release()
		if c.Leader() == nil {
			t.Error("none of the others leads")
		}
	})
}

// Given a server that is alone, when it stops, then there is nobody to wait for.
func TestAServerAloneStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 1)
		first, begun := c.Leader(), time.Now()
		first.Stop()
		if took := time.Since(begun); took > time.Second || strings.Contains(first.Said(), "stops while it leads") {
			t.Errorf("it took %s, and says\n%s", took, first.Said())
		}
	})
}
