// Package locks owns how long the locks of variables hold: it hears of renewals, and takes a lock from who has not
// renewed it in time. Time is counted by the server that leads; when another one leads, every holder has his full time
// anew, since what was heard before was heard by others. Only package server constructs it.
package locks

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/model/variable"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/variables"
	"berth/internal/server/state"
)

const (
	// retryPause is how long a lock that could not be taken away rests.
	retryPause = time.Second
	// still is how late the keeper may look: one that is later stood still itself, and did not hear of renewals.
	still = variable.MinTTL / 2
)

// Keeper takes locks away that are not renewed.
type Keeper struct {
	store    *state.Store
	proposer fsm.Proposer
	log      *slog.Logger

	mu   sync.Mutex
	held map[variables.At]*held // nil: this server does not lead
}

// held is a lock as this server knows it.
type held struct {
	lock variable.Lock
	due  time.Time
	lost bool // it is being taken away
}

// New returns a keeper. It starts nothing.
func New(store *state.Store, proposer fsm.Proposer, log *slog.Logger) *Keeper {
	return &Keeper{store: store, proposer: proposer, log: log}
}

// Renew gives the holder of a lock his full time from now on. A conflict says that he is not the holder any more.
// Whether this server still led when it was asked, the caller has to make sure of afterwards.
func (k *Keeper) Renew(at variables.At, lock string) (variable.Conflict, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		return "", fault.New(fault.Unavailable, "renew", "the lock of "+variable.Name(at.Path),
			"this server does not lead")
	}
	v := k.store.Snapshot().Variable(nil, at.Namespace, at.Path)
	if !v.Holds(lock) {
		return variable.NotHeld, nil
	}
	h := k.know(at, v.Lock)
	if h.lost {
		return variable.NotHeld, nil
	}
	h.due = time.Now().Add(h.lock.TTL)
	return "", nil
}

// know is the entry of a lock, which is made where there is none.
func (k *Keeper) know(at variables.At, lock *variable.Lock) *held {
	h := k.held[at]
	if h == nil || h.lock != *lock {
		h = &held{lock: *lock, due: time.Now().Add(lock.TTL)}
		k.held[at] = h
	}
	return h
}

// Run keeps the locks until ctx ends. Run it on the leader alone.
func (k *Keeper) Run(ctx context.Context) error {
	k.begin()
	defer k.end()
	for {
		w := state.NewWatch()
		late, next := k.look(k.store.Snapshot(), w)
		for at, lock := range late {
			k.lose(ctx, at, lock)
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if !next.IsZero() {
			wait, cancel = context.WithDeadline(ctx, next)
		}
		_ = w.Wait(wait) // whatever woke it, it looks again
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		k.stood(next)
	}
}

func (k *Keeper) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = map[variables.At]*held{}
}

func (k *Keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = nil
}

// look takes in the locks of a state, and says which of them are lost, and when it has to look again.
func (k *Keeper) look(s *state.Snap, w *state.Watch) (late map[variables.At]string, next time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	known := make(map[variables.At]*held, len(k.held))
	late = map[variables.At]string{}
	for v := range s.Locked(w) {
		at := variables.At{Namespace: v.Namespace, Path: v.Path}
		h := k.know(at, v.Lock)
		known[at] = h
		if !h.due.After(now) {
			h.lost = true
			h.due = now.Add(retryPause)
			late[at] = h.lock.ID
		}
		if next.IsZero() || h.due.Before(next) {
			next = h.due
		}
	}
	k.held = known
	return late, next
}

// stood gives every holder his full time, if this server looks much later than it wanted to.
func (k *Keeper) stood(wanted time.Time) {
	gap := time.Since(wanted)
	if wanted.IsZero() || gap < still {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log.Warn("this server stood still; every holder of a lock has its full time from now", "for", gap)
	for _, h := range k.held {
		if !h.lost {
			h.due = time.Now().Add(h.lock.TTL)
		}
	}
}

// lose takes a lock away. Its holder is told by the answer to the next thing that he does with it.
func (k *Keeper) lose(ctx context.Context, at variables.At, lock string) {
	_, _, err := k.proposer.Propose(ctx, &variables.Lose{At: at, Lock: lock})
	switch {
	case err == nil:
		k.log.Info("a lock was not renewed, and is lost", "namespace", at.Namespace, logkey.Path, at.Path)
	case ctx.Err() == nil:
		k.log.Error("a lock that was not renewed can't be taken away; trying again", "namespace", at.Namespace,
			logkey.Path, at.Path, logkey.Error, err)
	}
}
