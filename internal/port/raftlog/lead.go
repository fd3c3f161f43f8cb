package raftlog

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
)

// Leader is the server that leads as far as this one knows, by its id; empty: none that is known. The channel is closed
// when that changes.
func (l *Log) Leader() (string, <-chan struct{}) {
	changed := l.changed.C()
	r, _, _, err := l.running()
	if err != nil {
		return "", changed
	}
	_, id := r.LeaderWithID()
	return string(id), changed
}

// Contact is how long ago this server last heard from one that leads, 0 if it leads itself; and whether it knows who
// leads now.
func (l *Log) Contact() (since time.Duration, known bool) {
	r, _, _, err := l.running()
	if err != nil {
		return 0, false
	}
	if r.State() == raft.Leader {
		return 0, true
	}
	if at := r.LastContact(); !at.IsZero() {
		since = time.Since(at)
	}
	_, id := r.LeaderWithID()
	return since, id != ""
}

// Establish waits until everything that was committed before is applied here, and returns the term of Raft in which
// this server led all the while.
func (l *Log) Establish(ctx context.Context) (term uint64, err error) {
	r, _, _, err := l.running()
	if err != nil {
		return 0, err
	}
	term = r.CurrentTerm()
	if err := l.Barrier(ctx); err != nil {
		return 0, err
	}
	return term, sameTerm(r, term)
}

// Confirm makes sure that this server still leads in the term that Establish has returned, by asking a majority.
// Whatever was acknowledged to anybody before is applied here then: what came before the term since Establish, and what
// came in it because it is applied here before it is acknowledged. So nothing needs to be written to read the newest
// state.
func (l *Log) Confirm(ctx context.Context, term uint64) error {
	err := l.wait(ctx, "verify leadership", func(r *raft.Raft) raft.Future { return r.VerifyLeader() })
	if err != nil {
		return err
	}
	r, _, _, err := l.running()
	if err != nil {
		return err
	}
	return sameTerm(r, term)
}

// sameTerm refuses what was begun in a term that is over: another server may have led since.
func sameTerm(r *raft.Raft, term uint64) error {
	if r.CurrentTerm() == term {
		return nil
	}
	return fault.New(fault.Unavailable, "verify leadership", "server", "another term has begun")
}

// observe has the log say when this server hears of another leader, until ctx ends.
func (l *Log) observe(ctx context.Context, g *lifecycle.Group, r *raft.Raft) {
	seen := make(chan raft.Observation, 1) // a level: one that waits to be looked at stands for all after it
	o := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	r.RegisterObserver(o)
	g.Go("leader", func() error {
		defer r.DeregisterObserver(o)
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-seen:
				l.changed.Notify()
			}
		}
	})
}
