package radix

import "sync/atomic"

// signal tells those who wait for it that what it belongs to is not part of the newest tree any more. Its channel is
// made for the first who asks: most of what a tree is made of nobody ever watches.
type signal struct{ ch atomic.Pointer[chan struct{}] }

// over is the channel of every signal that was given.
var over = func() *chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return &ch
}()

// watch is closed once the signal was given. Whoever reads an old tree asks perhaps after that.
func (s *signal) watch() <-chan struct{} {
	if p := s.ch.Load(); p != nil {
		return *p
	}
	ch := make(chan struct{})
	if s.ch.CompareAndSwap(nil, &ch) {
		return ch
	}
	return *s.ch.Load()
}

func (s *signal) give() {
	if p := s.ch.Swap(over); p != nil && p != over {
		close(*p)
	}
}
