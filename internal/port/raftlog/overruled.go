package raftlog

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/port/raftlog/files"
)

// A leader that replaces the state has the new one before the others have: the library writes it to a snapshot of this
// server, and drops its log, before it asks anybody. If the others have a new leader by then, they go on without it. The
// library knows no way back from there: a snapshot counts as agreed on, so that this server would keep the state that
// nobody else has, and take no entry of the new leader, or apply the next ones to the wrong state.

// overruled ends this server if the leader has another entry in the place of the last one of this server's newest
// snapshot: what was agreed on every later leader has, so that this was not. The next start takes the leader's.
func (c *checked) overruled(req *raft.AppendEntriesRequest) error {
	mine := c.snaps.Reach()
	theirs, known := termAt(req, mine.Index)
	if !known || theirs == mine.Term {
		return nil
	}
	term, err := c.store.GetUint64(files.CurrentTerm)
	if err != nil || req.Term < term {
		return err // an older leader's, which Raft refuses
	}
	if err := files.Overrule(c.store.dir, mine); err != nil {
		return err
	}
	err = fault.WithHint(fault.New(fault.Conflict, "follow", "server "+string(req.ID), fmt.Sprintf(
		"the state that was restored here as of entry %d was never agreed on: the others have gone on with the one from "+
			"before", mine.Index)), "start the agent again: it takes the others' state; then restore once more, if that is "+
		"still wanted")
	c.damage.report(err)
	return err
}

// termAt is the term that the sender has for an entry, if it says so.
func termAt(req *raft.AppendEntriesRequest, index uint64) (term uint64, known bool) {
	if index == 0 {
		return 0, false
	}
	if req.PrevLogEntry == index {
		return req.PrevLogTerm, true
	}
	for _, e := range req.Entries {
		if e.Index == index {
			return e.Term, true
		}
	}
	return 0, false
}

// rejoin takes the others' state in the place of one that was overruled.
func (l *Log) rejoin(ctx context.Context, w *files.Wound) error {
	l.cfg.Log.Warn("the state that was restored here was never agreed on, and is dropped; this server neither votes "+
		"nor leads before it has got the others'", logkey.Path, l.cfg.Dir, "missing", missing(w))
	if err := l.mend(ctx, w); err != nil {
		return err
	}
	return files.Settle(l.cfg.Dir)
}
