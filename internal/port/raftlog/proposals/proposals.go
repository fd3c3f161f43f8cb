// Package proposals owns the way of entries into the log until Raft has them: who waits for nobody, and what goes
// together. Only package raftlog imports it.
package proposals

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/lifecycle"
)

// MaxGroups is how many groups of entries are under way at once. Fewer callers than that wait for nobody. The entries
// of more go together, as many as came while those before were under way: each group costs a write to disk, a message
// and a change of the state on every server, whatever its size.
const MaxGroups = 4

// Queue is of entries that are on their way. It works as long as Waiters does, in whose goroutines they are waited for.
type Queue struct {
	Waiters *lifecycle.Group
	Raft    Applier
	// Refused is how those end that come when Waiters takes nobody any more.
	Refused error

	mu     sync.Mutex
	queue  []*proposal
	groups int // under way
}

// Applier is Raft, as far as it takes entries.
type Applier interface {
	Apply(data []byte, timeout time.Duration) raft.ApplyFuture
}

type proposal struct {
	data    []byte
	givenUp <-chan struct{}
	ended   chan Result
}

// Result is how a proposal ended: Raft's future, which has ended, or why it was not begun.
type Result struct {
	Future  raft.ApplyFuture
	Refused error
}

// Answer is the index of the entry and what the state machine says of it, which may be an error. One that is Raft's own
// goes through failed.
func (r Result) Answer(failed func(error) error) (value any, index uint64, err error) {
	if r.Refused != nil {
		return nil, 0, r.Refused
	}
	if err := r.Future.Error(); err != nil {
		return nil, 0, failed(err)
	}
	if err, refused := r.Future.Response().(error); refused {
		return nil, r.Future.Index(), err
	}
	return r.Future.Response(), r.Future.Index(), nil
}

// Add queues an entry, and brings it into the log with those that wait as it does. It is not begun when its caller has
// given up before that, which nobody hears.
func (q *Queue) Add(data []byte, givenUp <-chan struct{}) <-chan Result {
	p := &proposal{data: data, givenUp: givenUp, ended: make(chan Result, 1)}
	q.mu.Lock()
	q.queue = append(q.queue, p)
	begins := q.groups < MaxGroups
	if begins {
		q.groups++
	}
	q.mu.Unlock()
	if begins && !q.Waiters.Go("wait for proposals", func() error { q.carry(q.propose); return nil }) {
		q.carry(q.refuse)
	}
	return p.ended
}

// carry takes group after group, until none waits.
func (q *Queue) carry(take func([]*proposal)) {
	for {
		q.mu.Lock()
		all := q.queue
		q.queue = nil
		if len(all) == 0 {
			q.groups--
		}
		q.mu.Unlock()
		if len(all) == 0 {
			return
		}
		take(all)
	}
}

// propose brings a group of entries into the log and waits for their ends, which come in this order.
func (q *Queue) propose(all []*proposal) {
	futures := make([]raft.ApplyFuture, len(all))
	for i, p := range all {
		select {
		case <-p.givenUp:
		default:
			futures[i] = q.Raft.Apply(p.data, 0)
		}
	}
	for i, f := range futures {
		if f != nil {
			_ = f.Error() // it is there for all who ask the future again
			all[i].ended <- Result{Future: f}
		}
	}
}

func (q *Queue) refuse(all []*proposal) {
	for _, p := range all {
		p.ended <- Result{Refused: q.Refused}
	}
}
