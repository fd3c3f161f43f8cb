package shim

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/bootclock"
	"berth/internal/base/lifecycle"
	"berth/internal/shimproto"
)

// quietShim has a clock that nobody reads, and begins nothing: what a process would do next is only noted.
func quietShim(t *testing.T) *Shim {
	t.Helper()
	a, err := bootclock.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() }) // nothing is written to it
	g, _ := lifecycle.NewGroup(t.Context())
	if err := g.Wait(); err != nil { // from now on it takes no work
		t.Fatal(err)
	}
	return &Shim{alarm: a, group: g, ledger: ledger{}}
}

// runsIn is a process of a shim that runs, and has got its signal already.
func runsIn(s *Shim, task string) *process {
	p := attemptOf(task, 1)
	p.shim = s
	p.state.running, p.state.asked = true, true
	s.ledger.admit(p)
	return p
}

// TestARepeatedStopOnlyBringsTheDeadlineNearer: given a task that is being stopped, when its stop is asked for again,
// with more time or with less, then the nearest of all deadlines holds.
func TestARepeatedStopOnlyBringsTheDeadlineNearer(t *testing.T) {
	p := runsIn(quietShim(t), "web")
	nearest := time.Duration(1 << 62)
	for _, grace := range []time.Duration{time.Hour, 2 * time.Hour, time.Minute, time.Hour, 24 * time.Hour} {
		first := shimproto.Boottime()
		if err := p.stop(unix.SIGTERM, grace); err != nil {
			t.Fatal(err)
		}
		if grace > nearest { // asked for earlier, and nearer
			first = 0
		}
		nearest = min(nearest, grace)
		last := shimproto.Boottime() + int64(nearest)
		if at := p.deadline(); at > last || first != 0 && at < first+int64(nearest) {
			t.Errorf("with %s more the deadline is in %s", grace, time.Duration(at-shimproto.Boottime()))
		}
	}
	if p.state.tearingDown {
		t.Error("it is ended before its deadline")
	}
	if err := p.stop(0, 0); err != nil || !p.state.tearingDown {
		t.Errorf("a stop without any time left does not end it: %v", err)
	}
}

// TestWhoIsPastTheDeadlineIsEndedAndNobodyElse: and the clock is set to the next one.
func TestWhoIsPastTheDeadlineIsEndedAndNobodyElse(t *testing.T) {
	s := quietShim(t)
	past := runsIn(s, "past")
	past.state.deadline = 10
	next := runsIn(s, "next")
	next.state.deadline = 20
	later := runsIn(s, "later")
	later.state.deadline = 30
	none := runsIn(s, "none")
	if at := s.due(15); at != 20 {
		t.Errorf("the next deadline is %d", at)
	}
	for p, ends := range map[*process]bool{past: true, next: false, later: false, none: false} {
		if p.state.tearingDown != ends {
			t.Errorf("process %s is ended: %t", p.launch.Name, p.state.tearingDown)
		}
	}
	if at := s.due(30); at != 0 || none.state.tearingDown || !later.state.tearingDown {
		t.Errorf("in the end the next deadline is %d", at)
	}
}

// TestTheLast16EndsAreKnown: of a task that was started 20 times. Of the first ones it is only known that they are
// over.
func TestTheLast16EndsAreKnown(t *testing.T) {
	l := ledger{}
	for n := 1; n <= 20; n++ {
		p := attemptOf("web", n)
		l.admit(p)
		l.settle(p, shimproto.Exit{Code: n}, true)
	}
	for n := 1; n <= 20; n++ {
		p, ended := l.find("web", n)
		if p != nil || ended == nil || ended.Newest != 20 || ended.Exit.Unknown != (n <= 4) ||
			n > 4 && ended.Exit.Code != n {
			t.Errorf("attempt %d ended %+v", n, ended)
		}
	}
}
