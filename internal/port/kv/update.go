package kv

import (
	"errors"
	"sync"

	bolt "go.etcd.io/bbolt"

	"berth/internal/base/fault"
)

// queue holds the updates that wait for the one that is being committed.
type queue struct {
	committing sync.Mutex // held by whoever commits
	mu         sync.Mutex
	waiting    []*update
}

// update is one caller's part of a transaction.
type update struct {
	fn func(*Tx) error
	// What follows is written by whoever commits, and read by the caller once it commits itself.
	done  bool
	err   error
	alone bool // it is the caller's own to run: what comes of it beside others says nothing about the others
}

func (q *queue) add(u *update) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, u)
}

// take returns all that wait; they wait no more.
func (q *queue) take() []*update {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	q.waiting = nil
	return all
}

// Update runs fn in a durable transaction. When it returns an error nothing of fn was changed. A full disk is
// fault.Exhausted, a failed write or fsync fault.Internal; both name the file. After a failed write or fsync the store
// writes nothing more: the kernel may have dropped the pages, and a later fsync that succeeds would prove nothing.
//
// Updates that come while another one is being committed are committed together, in the order in which they came: each
// sees what those before it wrote. fn may run in another caller's goroutine, and more than once: it must begin anew
// each time, and must not wait for another update.
func (s *Store) Update(fn func(*Tx) error) error {
	u := &update{fn: fn}
	s.queue.add(u)
	s.queue.committing.Lock()
	defer s.queue.committing.Unlock()
	if !u.done && !u.alone {
		s.commit(s.queue.take())
	}
	if u.alone {
		return s.run(fn)
	}
	return u.err
}

// commit commits updates in one transaction. One that fails or panics is taken out and left to its caller, and so are
// all when the disk has no room for them together.
func (s *Store) commit(all []*update) {
	for len(all) > 1 {
		failed := -1
		err := s.run(func(tx *Tx) error {
			failed = -1
			for i, u := range all {
				failed = i
				if err := u.try(tx); err != nil {
					return err
				}
			}
			failed = -1
			return nil
		})
		switch {
		case failed >= 0:
			all[failed].alone = true
			all = append(all[:failed:failed], all[failed+1:]...)
			continue
		case fault.Has(err, fault.Exhausted):
			for _, u := range all {
				u.alone = true
			}
		default:
			for _, u := range all {
				u.done, u.err = true, err
			}
		}
		return
	}
	for _, u := range all {
		u.alone = true
	}
}

// errPanicked is the error of an update that panicked beside others: it panics again in its caller's goroutine.
var errPanicked = errors.New("panic")

func (u *update) try(tx *Tx) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	return u.fn(tx)
}

// run runs fn in a transaction of its own.
func (s *Store) run(fn func(*Tx) error) error {
	if p := s.sick.Load(); p != nil {
		return *p
	}
	var inner error
	err := s.db.Update(func(tx *bolt.Tx) error {
		inner = fn(&Tx{tx: tx, codec: s.codec})
		return inner
	})
	if err == nil {
		_ = s.setAside() // what was written is written: the next opening says what stands in the way
		return nil
	}
	if inner != nil {
		return err
	}
	err = classify(err, "write store", s.path)
	if !fault.Has(err, fault.Exhausted) {
		sick := fault.WithHint(err, "nothing more is written there; check the disk and restart the agent")
		s.sick.CompareAndSwap(nil, &sick)
	}
	return err
}
