package raftlog

import (
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Counters count what the log wrote. Each append is one fsync; each stable write is a transaction of its own.
type Counters struct {
	appends, entries, bytes, stable, full atomic.Uint64
}

// Written is a reading of Counters. Full is what was not written for want of room on the disk.
type Written struct {
	Appends, Entries, Bytes, Stable, Full uint64
}

// Read returns the present figures.
func (c *Counters) Read() Written {
	return Written{
		Appends: c.appends.Load(),
		Entries: c.entries.Load(),
		Bytes:   c.bytes.Load(),
		Stable:  c.stable.Load(),
		Full:    c.full.Load(),
	}
}

func (c *Counters) append(entries []*raft.Log) {
	c.appends.Add(1)
	c.entries.Add(uint64(len(entries)))
	for _, e := range entries {
		c.bytes.Add(uint64(len(e.Data)))
	}
}

func (w Written) stats() map[string]string {
	n := func(v uint64) string { return strconv.FormatUint(v, 10) }
	return map[string]string{"wal_appends": n(w.Appends), "wal_entries": n(w.Entries), "wal_bytes": n(w.Bytes),
		"wal_stable_writes": n(w.Stable), "refused_disk_full": n(w.Full)}
}
