// Package slot owns which call of a volume is in flight on a node: one at a time, of which those that only read give
// way. Only the node keeper imports it.
package slot

import (
	"context"
	"sync"
	"time"

	"berth/internal/port/csi"
)

// Slot lets one node call of a volume at a time reach its plugin (CSI spec, Concurrency). Steps follow each other by
// the keeper's loop. A reading of the volume gives way to them: no step waits for what a plugin answers to a reading.
type Slot struct {
	mu      sync.Mutex
	step    bool     // one is under way
	reading *reading // under way; nil: none is
	cut     time.Time
}

// reading is a call that changes nothing.
type reading struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Begin takes the slot for a step. A reading under way is cancelled, and has returned when Begin does.
func (s *Slot) Begin() {
	s.mu.Lock()
	s.step = true
	r := s.reading
	s.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
	}
}

// End gives the slot back after a step.
func (s *Slot) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = false
}

// Read makes a reading, unless a call of the volume is under way: then it reports that nothing was begun. A step that
// comes meanwhile ends its context.
func (s *Slot) Read(ctx context.Context, call func(context.Context) error) (begun bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &reading{cancel: cancel, done: make(chan struct{})}
	s.mu.Lock()
	if s.step || s.reading != nil {
		s.mu.Unlock()
		return false, nil
	}
	s.reading = r
	s.mu.Unlock()
	defer close(r.done)
	err = call(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = nil
	if csi.Lost(err) {
		s.cut = time.Now()
	}
	return true, err
}

// CutOff reports whether a reading ended without an answer so short ago that the plugin may still be at it.
func (s *Slot) CutOff(within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.cut) < within
}
