package raftlog

import (
	"sync"

	"github.com/hashicorp/raft"
)

// recent holds the entries that were written last, as they were written. A server reads each of its own entries soon
// after it has written it, to apply it, and the leader once more for every follower: from the disk that costs it more
// than writing did. What is older, and what is large, is read there.
type recent struct {
	mu      sync.RWMutex
	entries [recentEntries]*raft.Log // each at the remainder of its index
}

const (
	recentEntries = 2 * maxAppend // what one message carries, and as many that were written meanwhile
	recentLargest = 16 << 10      // bytes of an entry that is held: together at most 16 MiB
)

// wrote takes entries that are on disk.
func (r *recent) wrote(entries []*raft.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries[max(0, len(entries)-recentEntries):] {
		at := e.Index % recentEntries
		r.entries[at] = nil // an older one with this index perhaps
		if len(e.Data) <= recentLargest {
			r.entries[at] = e
		}
	}
}

// read copies an entry, and tells whether it is held. Nobody writes into what the copy shares with it.
func (r *recent) read(index uint64, e *raft.Log) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	held := r.entries[index%recentEntries]
	if held == nil || held.Index != index {
		return false
	}
	*e = *held
	return true
}

// drop forgets entries, before they are taken from the disk.
func (r *recent) drop(first, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.entries {
		if e != nil && first <= e.Index && e.Index <= last {
			r.entries[i] = nil
		}
	}
}
