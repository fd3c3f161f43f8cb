// Package recent owns the entries of the log that are held in memory, beside those on disk.
package recent

import (
	"sync"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// Log is one on disk whose last entries are held as they were written, too. A server reads each entry soon after it has
// written it, to apply it, and the leader once more for every follower: from the disk that costs more than writing it
// did. What is older, and what is large, is read there.
type Log struct {
	*wal.WAL
	mu   sync.RWMutex
	held [Entries]*raft.Log // each at the remainder of its index
}

// Entries is how many are held: what two messages to a follower carry.
const Entries = 1024

// largest is how many bytes one may have that is held: together they have at most 16 MiB.
const largest = 16 << 10

// StoreLogs writes entries, and holds them once they are on disk.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	if err := l.WAL.StoreLogs(entries); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries[max(0, len(entries)-Entries):] {
		at := e.Index % Entries
		l.held[at] = nil // one with this index that was dropped, perhaps
		if len(e.Data) <= largest {
			l.held[at] = e
		}
	}
	return nil
}

// GetLog reads an entry. Nobody writes into what it shares with the one that is held.
func (l *Log) GetLog(index uint64, e *raft.Log) error {
	if l.read(index, e) {
		return nil
	}
	return l.WAL.GetLog(index, e)
}

func (l *Log) read(index uint64, e *raft.Log) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	held := l.held[index%Entries]
	if held == nil || held.Index != index {
		return false
	}
	*e = *held
	return true
}

// DeleteRange forgets entries before it takes them from the disk.
func (l *Log) DeleteRange(first, last uint64) error {
	l.Forget(first, last)
	return l.WAL.DeleteRange(first, last)
}

// Forget has entries read from the disk from here on.
func (l *Log) Forget(first, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.held {
		if e != nil && first <= e.Index && e.Index <= last {
			l.held[i] = nil
		}
	}
}
