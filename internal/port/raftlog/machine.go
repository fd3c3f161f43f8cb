package raftlog

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"berth/internal/port/raftlog/files"
)

// machine shows a StateMachine to Raft.
type machine struct {
	sm     StateMachine
	dir    string // of the log, for people
	log    *slog.Logger
	damage *damage
	last   atomic.Uint64 // index of the last entry that was applied and not Raft's own
}

// Apply is ApplyBatch of one.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch hands commands on and answers nil for what is Raft's own. From the first damaged entry on everything is
// answered with what is known of it.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	for _, l := range logs {
		if err := files.Sound(l); err != nil {
			m.damage.report(files.Damaged(err, "apply", files.SegmentOf(filepath.Join(m.dir, "wal"), l.Index), m.dir))
		}
	}
	if err := m.damage.known(); err != nil {
		return slices.Repeat([]any{err}, len(logs))
	}
	entries := make([]Entry, 0, len(logs))
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			entries = append(entries, Entry{Index: l.Index, Data: l.Data})
		}
	}
	results := m.sm.ApplyBatch(entries)
	if n := len(entries); n > 0 {
		m.last.Store(entries[n-1].Index)
	}
	out := make([]any, len(logs))
	next := 0
	for i, l := range logs {
		if l.Type == raft.LogCommand {
			out[i] = results[next]
			next++
		}
	}
	return out
}

// Snapshot freezes the state.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if err := m.damage.known(); err != nil {
		return nil, err
	}
	write, err := m.sm.Snapshot()
	if err != nil {
		return nil, err
	}
	return snapshot{write}, nil
}

// Restore replaces the state.
func (m *machine) Restore(r io.ReadCloser) error {
	err := m.sm.Restore(r)
	if closing := r.Close(); err == nil && closing != nil {
		return fmt.Errorf("close snapshot: %w", closing)
	}
	return err
}

type snapshot struct{ write func(io.Writer) error }

// Persist writes the frozen state; a snapshot that failed half-way is discarded.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.write(sink); err != nil {
		_ = sink.Cancel() // the error of the write is the one that matters
		return fmt.Errorf("write snapshot %s: %w", sink.ID(), err)
	}
	return sink.Close()
}

// Release has nothing to release.
func (snapshot) Release() {}
