// Package seldom owns how often something is logged that others bring about as often as they like.
package seldom

import (
	"sync"
	"time"
)

// Bounds of what is said.
const (
	most   = 10 // lines
	window = time.Minute
)

// Log bounds the lines of one kind: ten in a minute. The zero value is ready.
type Log struct {
	mu     sync.Mutex
	begun  time.Time // of the present window
	said   int
	missed int // since a line was said last
}

// Say tells whether to say it now, and how often it was not said since it was the last time.
func (l *Log) Say() (missed int, say bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.begun.IsZero() || now.Sub(l.begun) >= window {
		l.begun, l.said = now, 0
	}
	if l.said >= most {
		l.missed++
		return 0, false
	}
	l.said++
	missed, l.missed = l.missed, 0
	return missed, true
}
