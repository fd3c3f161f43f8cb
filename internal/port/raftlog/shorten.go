package raftlog

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/logkey"
)

// shortener has the state written to a snapshot in time, so that a start has little to apply. Raft itself counts
// entries alone, and looks only every half minute: a server that never lived so long would read a longer log at each
// start, and one that is quiet would keep hours of entries.
type shortener struct {
	log   *Log
	snaps raft.SnapshotStore

	index uint64    // up to which there is a snapshot
	bytes uint64    // that the log had written when that was seen
	since time.Time // when the first entry after it was seen; zero: there is none
}

func (s *shortener) run(ctx context.Context) {
	s.index = newest(s.snaps)
	if !s.led(ctx) || s.log.Barrier(ctx) != nil {
		return // without leadership the leader's snapshot is as good
	}
	// The library counts what it handed over for applied only after the barrier may have returned.
	if last := s.log.machine.last.Load(); last >= s.index+s.log.cfg.SnapshotThreshold {
		s.write(ctx)
	}
	tick := time.NewTicker(s.log.cfg.interval)
	defer tick.Stop()
	for {
		if s.due(time.Now()) {
			s.write(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// led waits until this server has led.
func (s *shortener) led(ctx context.Context) bool {
	for {
		lead, changed := s.log.Leadership()
		if lead.Leading {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// due looks at what was applied since the last snapshot, whoever wrote that.
func (s *shortener) due(now time.Time) bool {
	written := s.log.counters.Read().Bytes
	if index := newest(s.snaps); index != s.index {
		s.index, s.bytes = index, written
		s.since = time.Time{}
	}
	switch {
	case s.log.machine.last.Load() <= s.index: // what is Raft's own changes nothing
		s.since = time.Time{}
		return false
	case s.since.IsZero():
		s.since = now
	}
	return written-s.bytes >= s.log.cfg.SnapshotBytes || now.Sub(s.since) >= s.log.cfg.SnapshotAge
}

func (s *shortener) write(ctx context.Context) {
	if err := s.log.Snapshot(ctx); err != nil && ctx.Err() == nil {
		s.log.cfg.Log.Warn("the log could not be shortened", logkey.Path, s.log.cfg.Dir, logkey.Error, err)
	}
}

// newest is up to which entry there is a snapshot; 0: there is none.
func newest(snaps raft.SnapshotStore) uint64 {
	found, err := snaps.List() // the newest first
	if err != nil || len(found) == 0 {
		return 0
	}
	return found[0].Index
}
