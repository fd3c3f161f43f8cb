package variable

import (
	"fmt"
	"time"

	"berth/internal/base/fault"
)

// Lock is held by whoever knows its id, as long as it is renewed within its TTL.
type Lock struct {
	ID    string // UUID, made by the servers
	TTL   time.Duration
	Delay time.Duration // after it was lost, before it can be acquired again
}

// Bounds of a lock, and what it has where nothing is said.
const (
	MinTTL       = 10 * time.Second
	MaxTTL       = 24 * time.Hour
	DefaultTTL   = 15 * time.Second
	DefaultDelay = 15 * time.Second
)

// Validate checks what somebody asks for. A lock that nobody renews is lost after its TTL, counted by the server that
// leads; with another one that begins anew, so that it may last for up to twice as long.
func (l *Lock) Validate(path string) error {
	refuse := func(what string, d time.Duration, least time.Duration) error {
		return fault.New(fault.Invalid, "lock", Name(path), fmt.Sprintf(
			"the lock's %s is %s, it has to be from %s to %s", what, d, least, MaxTTL))
	}
	switch {
	case l.TTL < MinTTL || l.TTL > MaxTTL:
		return refuse("TTL", l.TTL, MinTTL)
	case l.Delay < 0 || l.Delay > MaxTTL:
		return refuse("delay", l.Delay, 0)
	}
	return nil
}
