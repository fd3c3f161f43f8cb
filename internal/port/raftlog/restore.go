package raftlog

import (
	"bytes"
	"context"

	"github.com/hashicorp/raft"

	"berth/internal/base/ids"
)

// Pause ends this server's term for what stands on the log, though the log itself goes on: whoever works by its
// leadership stops. resume begins another term, if it leads still.
func (l *Log) Pause() (resume func()) {
	l.pause(true)
	return func() { l.pause(false) }
}

func (l *Log) pause(on bool) {
	l.mu.Lock()
	if l.paused && !on && l.leads {
		l.term.Term++
	}
	l.paused = on
	l.term.Leading = l.leads && !l.paused
	l.mu.Unlock()
	l.changed.Notify()
}

// Restore replaces the whole state by a snapshot that StateMachine.Snapshot has written. The log goes on at an index
// above every one that it had, and above index. What was proposed and is not applied yet is refused.
func (l *Log) Restore(ctx context.Context, index uint64, snapshot []byte) error {
	return l.wait(ctx, "restore the state", func(r *raft.Raft) raft.Future {
		meta := &raft.SnapshotMeta{
			Version: raft.SnapshotVersionMax,
			ID:      ids.New(),
			Index:   index,
			Size:    int64(len(snapshot)),
		}
		return ended{r.Restore(meta, bytes.NewReader(snapshot), 0)}
	})
}

// ended is the future of something that has ended.
type ended struct{ err error }

func (e ended) Error() error { return e.err }
