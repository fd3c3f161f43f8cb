package variables

import "time"

// terms are those of a lock, by which follows how long a program may run that holds it. The servers take a lock away
// when its TTL has passed since they heard of it last, and give it to somebody else when its delay has passed, too. All
// is counted from when the holder has asked, which is before they have heard.
type terms struct{ ttl, delay time.Duration }

const (
	// endPause is how long a program that is to end has from SIGTERM to SIGKILL, at most.
	endPause = 5 * time.Second
	// margin is how long it may take from SIGKILL until nothing runs any more.
	margin = time.Second
	// tryPause is between two attempts to renew a lock when one has failed.
	tryPause = time.Second
)

// grace is how long the program has to end by itself. With a short delay it has less: a part of the TTL is taken for
// it, and the rest is left for renewals.
func (t terms) grace() time.Duration { return min(endPause, t.ttl/4+t.delay) }

// until is when a program is told to end, if the lock is not renewed after it was asked for at a time: at the end of
// the TTL, but so early that nothing of it runs any more when somebody else may have the lock.
func (t terms) until(asked time.Duration) time.Duration {
	return asked + min(t.ttl, t.ttl+t.delay-t.grace()-margin)
}
