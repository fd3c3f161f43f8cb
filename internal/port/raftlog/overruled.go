package raftlog

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/port/raftlog/files"
)

// A leader that replaces the state has the new one before the others have: the library writes it to a snapshot of this
// server, and drops its log, before it asks anybody. If the others have a new leader by then, they go on without it.
// The library knows no way back from there: a snapshot counts as agreed on, so that this server would keep the state
// that nobody else has, and take no entry of the new leader, or apply the next ones to the wrong state.

// overruled ends this server if the leader does not have the last entry of this server's newest snapshot: what was
// agreed on every later leader has, so that this was not. The next start takes the leader's.
func (c *checked) overruled(req *raft.AppendEntriesRequest) error {
	mine := c.snaps.Reach()
	theirs, known := termAt(req, mine.Index)
	if known && theirs == mine.Term || !known && !c.lost(req, mine) {
		return nil
	}
	term, err := c.store.GetUint64(files.CurrentTerm)
	if err != nil || req.Term < term {
		return err // an older leader's, which Raft refuses
	}
	last, err := c.store.LastIndex()
	if err == nil {
		err = files.Overrule(c.store.dir, mine, max(mine.Index, last))
	}
	if err != nil {
		return err
	}
	why := fmt.Sprintf("the state that was restored here as of entry %d was never agreed on: the others have gone on "+
		"with the one from before", mine.Index)
	err = fault.WithHint(fault.New(fault.Conflict, "follow", "server "+string(req.ID), why),
		"start the agent again: it takes the others' state; then restore once more, if that is still wanted")
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

// lost tells whether a later leader looks for the end of this server's log before the end of its snapshot, where the
// log has nothing. One whose log has what is in the snapshot begins beyond it, and finds nothing to look for before.
func (c *checked) lost(req *raft.AppendEntriesRequest, r files.Reach) bool {
	if req.Term <= r.Term || req.PrevLogEntry >= r.Index || req.PrevLogEntry == 0 && len(req.Entries) == 0 {
		return false // the one that wrote the snapshot, or no word of any entry
	}
	var e raft.Log
	return errors.Is(c.store.GetLog(max(req.PrevLogEntry, 1), &e), raft.ErrLogNotFound)
}

// unusable says, in a word, why a log that runs is relied on no more.
func unusable(why error) string {
	if fault.Has(why, fault.Conflict) {
		return "the others do not have the state that was restored here"
	}
	return "the log is damaged"
}

// silence says that a server does not vote, for itself or another one, because it has lost what it acknowledged.
func (g *guard) silence() error {
	if index := g.votesAt.Load(); index > 0 {
		return fault.New(fault.Unavailable, "vote", g.dir, fmt.Sprintf(
			"the state that was restored here was overruled, and the others' entries up to %d are not here yet", index))
	}
	return nil
}

// reached ends the silence once all up to an entry is on disk, before that is acknowledged. The leader that overruled
// this server has all that this one ever helped to commit, and none of that lies beyond what it had last.
func (g *guard) reached(index uint64) error {
	if at := g.votesAt.Load(); at == 0 || index < at {
		return nil
	}
	if err := files.Settle(g.dir); err != nil {
		return err
	}
	g.votesAt.Store(0)
	g.log.Info("this server has the others' state, and votes again", logkey.Index, index)
	return nil
}
