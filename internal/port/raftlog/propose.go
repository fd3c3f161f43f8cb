package raftlog

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

// Apply brings an entry into the log, waits until it is on disk with a majority and applied, and returns the state
// machine's result. Entries that are proposed at the same time share one write to disk. When ctx ends first the answer
// is Timeout: the entry may still be applied. With less than the reserve left on disk it is refused as Exhausted.
func (l *Log) Apply(ctx context.Context, data []byte) (any, uint64, error) {
	return l.apply(ctx, data, false)
}

// ApplyReleasing is Apply for entries that only release something: the reserve is there for them.
func (l *Log) ApplyReleasing(ctx context.Context, data []byte) (any, uint64, error) {
	return l.apply(ctx, data, true)
}

func (l *Log) apply(ctx context.Context, data []byte, releasing bool) (any, uint64, error) {
	_, queue, store, err := l.running()
	if err != nil {
		return nil, 0, err
	}
	if err := store.healthy(releasing); err != nil {
		if fault.Has(err, fault.Exhausted) {
			l.counters.full.Add(1)
		}
		return nil, 0, err
	}
	select {
	case e := <-queue.Add(data, ctx.Done()):
		return e.Answer(func(err error) error { return l.failed(err, store) })
	case <-ctx.Done():
		return nil, 0, fault.Wrap(ctx.Err(), fault.Timeout, "propose", "entry; whether it is applied is not known")
	}
}

func (l *Log) closing(op string) error {
	return fault.New(fault.Unavailable, op, l.cfg.Dir, "it is being closed")
}

// failed gives Raft's errors their kinds.
func (l *Log) failed(err error, store *guard) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrRaftShutdown),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		if sick := store.healthy(true); sick != nil {
			return sick
		}
		err = fault.Wrap(err, fault.Unavailable, "propose", "entry")
		if errors.Is(err, raft.ErrRaftShutdown) { // Raft says it of entries that it has written, too
			return err
		}
		return fault.WithHint(err, "the entry was not written; try again, when another server leads")
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrAbortedByRestore):
		return fault.Wrap(err, fault.Timeout, "propose", "entry; whether it is applied is not known")
	}
	return files.Classify(err, "write log", l.cfg.Dir)
}

// IsDeposed tells whether something failed because this server leads no more. Callers may hear of that by such an error
// before Leadership says so.
func IsDeposed(err error) bool {
	return errors.Is(err, raft.ErrLeadershipLost) || errors.Is(err, raft.ErrNotLeader)
}
