package datadir

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/request"
)

// Locks let one change at a time happen to a thing. Who comes second waits a moment and is then answered ABORTED, as
// the CSI specification asks of a plugin that gets two calls for one volume.
type Locks struct {
	mu   sync.Mutex
	held map[string]*holder
}

type holder struct {
	what  string
	since time.Time
	done  chan struct{}
}

const patience = time.Second

// Take locks key for a purpose until release is called.
func (l *Locks) Take(key, what string) (release func(), err error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		l.mu.Lock()
		h, busy := l.held[key]
		if !busy {
			if l.held == nil {
				l.held = map[string]*holder{}
			}
			mine := &holder{what: what, since: time.Now(), done: make(chan struct{})}
			l.held[key] = mine
			l.mu.Unlock()
			return func() { l.drop(key, mine) }, nil
		}
		l.mu.Unlock()
		select {
		case <-h.done:
		case <-deadline.C:
			return nil, request.Refuse(codes.Aborted, "%s: %s is going on since %s; call again", what, h.what,
				time.Since(h.since).Round(time.Second))
		}
	}
}

func (l *Locks) drop(key string, h *holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[key] == h {
		delete(l.held, key)
		close(h.done)
	}
}
