package server

import (
	"context"
	"sync"

	"berth/internal/base/lifecycle"
)

// lead is how the leader's work stands on this server. A term begins, its calls are served, then they are not any more,
// and only when all its work has ended is it closed.
type lead struct {
	changed lifecycle.Signal

	mu     sync.Mutex
	busy   bool   // the work of a term has begun and not ended yet
	over   bool   // the term has ended
	leads  bool   // calls are served
	end    ending // of the server
	term   uint64 // of Raft, in which they are
	failed error  // why the work of the last term ended, if it failed
	calls  map[*bounded]struct{}
}

// bounded is a call that goes on only while this server leads.
type bounded struct {
	end   context.CancelCauseFunc
	cause error
}

// open begins the work of a term.
func (l *lead) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy, l.over = true, false
}

// begin lets calls be served in a term of Raft, unless it has ended already.
func (l *lead) begin(term uint64) {
	l.mu.Lock()
	l.leads, l.term = !l.over, term
	l.failed = nil
	l.mu.Unlock()
	l.changed.Notify()
}

// stop lets no more calls be served, and cuts those short that go on only while this server leads.
func (l *lead) stop() {
	l.mu.Lock()
	calls := l.calls
	l.leads, l.over = false, true
	l.calls = nil
	l.mu.Unlock()
	for c := range calls {
		c.end(c.cause)
	}
	l.changed.Notify()
}

// close says that the work of the term has ended, and why if it failed.
func (l *lead) close(err error) {
	l.mu.Lock()
	l.busy, l.failed = false, err
	l.mu.Unlock()
	l.changed.Notify()
}

// ending is whether a server is about to end.
type ending uint8

const (
	goesOn ending = iota
	leaves        // it was asked to leave the cluster
	stops         // it comes back
)

// ends notes how the server is about to end.
func (l *lead) ends(how ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = how
}

// ending is how the server is about to end.
func (l *lead) ending() ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// now is whether calls are served, and in which term of Raft.
func (l *lead) now() (term uint64, leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, l.leads
}

// ended is whether no leader's work goes on, and why the last ended if it failed.
func (l *lead) ended() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.busy, l.failed
}

// while is a context that ends with ctx, or when calls are served no more, and then for that cause.
func (l *lead) while(ctx context.Context, cause error) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leads {
		end(cause)
		return ctx, func() {}
	}
	c := &bounded{end, cause}
	if l.calls == nil {
		l.calls = map[*bounded]struct{}{}
	}
	l.calls[c] = struct{}{}
	return ctx, func() {
		l.mu.Lock()
		delete(l.calls, c)
		l.mu.Unlock()
		end(context.Canceled)
	}
}
