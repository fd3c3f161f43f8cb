package variables

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Given any lock that the servers give, when it is not renewed any more, then nothing of its program runs by the time
// that somebody else may have the lock, and there is time to try more than one renewal before.
func TestAProgramHasEndedBeforeAnotherBegins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := func(name string, least, most int) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Millisecond
		}
		l := terms{ttl: whole("TTL", 10_000, 86_400_000), delay: whole("delay", 0, 86_400_000)}
		if rapid.Bool().Draw(t, "short") {
			l = terms{ttl: whole("short TTL", 10_000, 20_000), delay: whole("short delay", 0, 10_000)}
		}
		asked := whole("asked", 0, 1000)
		gone := l.until(asked) + l.grace() + margin
		if free := asked + l.ttl + l.delay; gone > free {
			t.Errorf("%+v: it may run until %s, and another from %s on", l, gone-asked, free-asked)
		}
		if last := asked + l.ttl/3 + 2*tryPause; l.until(asked) < last {
			t.Errorf("%+v: it is ended after %s", l, l.until(asked)-asked)
		}
		if l.until(asked) > asked+l.ttl || l.grace() > endPause {
			t.Errorf("%+v: it runs for %s, and ends within %s", l, l.until(asked)-asked, l.grace())
		}
	})
}

// What people know by heart: with what is usual a program runs for the whole TTL, and has its 5 s.
func TestTheUsualTerms(t *testing.T) {
	for _, c := range []struct{ l, want terms }{
		{terms{15 * time.Second, 15 * time.Second}, terms{15 * time.Second, 5 * time.Second}},
		{terms{15 * time.Second, 0}, terms{10250 * time.Millisecond, 3750 * time.Millisecond}},
		{terms{10 * time.Second, 0}, terms{6500 * time.Millisecond, 2500 * time.Millisecond}},
		{terms{10 * time.Second, time.Second}, terms{6500 * time.Millisecond, 3500 * time.Millisecond}},
	} {
		if got := (terms{c.l.until(0), c.l.grace()}); got != c.want {
			t.Errorf("%+v: until %s, grace %s; want %+v", c.l, got.ttl, got.delay, c.want)
		}
	}
}
