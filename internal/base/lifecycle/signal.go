package lifecycle

import "sync"

// Signal is a broadcast that carries no value: every waiter of the channel that C returned before a Notify wakes. It
// is how a table says "something changed, look again" without a queue and without blocking the one who says it. The
// zero value is ready.
type Signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// C returns the channel that the next Notify closes. Take it before you read what it guards, or a change is missed.
func (s *Signal) C() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Notify wakes all who hold the present channel.
func (s *Signal) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
	}
	s.ch = nil
}
