package raftlog

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
)

// mostGroups is how many groups of entries are under way at once. Fewer callers than that wait for nobody. The entries
// of more go together, as many as came while those before were under way: each group costs a write to disk, a message
// and a change of the state on every server, whatever its size.
const mostGroups = 4

// proposals are entries on their way into the log.
type proposals struct {
	mu     sync.Mutex
	queue  []*proposal
	groups int // under way
}

type proposal struct {
	ctx   context.Context // of who waits for it
	data  []byte
	ended chan proposed
}

// proposed is how a proposal ended.
type proposed struct {
	value any
	index uint64
	err   error
}

// add queues a proposal, and has carry bring it into the log with those that wait as it does. Where waiters takes
// nobody any more, refuse is how all end that were not begun.
func (q *proposals) add(p *proposal, waiters *lifecycle.Group, carry func([]*proposal), refuse error) {
	q.mu.Lock()
	q.queue = append(q.queue, p)
	begins := q.groups < mostGroups
	if begins {
		q.groups++
	}
	q.mu.Unlock()
	if begins && !waiters.Go("wait for proposals", func() error { q.carry(carry); return nil }) {
		q.carry(func(all []*proposal) {
			for _, p := range all {
				p.ended <- proposed{err: refuse}
			}
		})
	}
}

// carry brings group after group into the log, until none waits.
func (q *proposals) carry(carry func([]*proposal)) {
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
		carry(all)
	}
}

// propose brings a group of entries into the log and waits for their ends, which come in this order.
func (l *Log) propose(r *raft.Raft, store *guard, all []*proposal) {
	futures := make([]raft.ApplyFuture, len(all))
	for i, p := range all {
		if p.ctx.Err() == nil { // else nobody hears how it ends: it was not begun
			futures[i] = r.Apply(p.data, 0)
		}
	}
	for i, p := range all {
		if futures[i] != nil {
			p.ended <- l.ended(futures[i], store)
		}
	}
}

func (l *Log) ended(f raft.ApplyFuture, store *guard) proposed {
	if err := f.Error(); err != nil {
		return proposed{err: l.failed(err, store)}
	}
	if err, failed := f.Response().(error); failed {
		return proposed{index: f.Index(), err: err}
	}
	return proposed{value: f.Response(), index: f.Index()}
}

func (l *Log) closing(op string) error {
	return fault.New(fault.Unavailable, op, l.cfg.Dir, "it is being closed")
}
