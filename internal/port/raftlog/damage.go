package raftlog

import (
	"sync/atomic"

	"berth/internal/port/raftlog/files"
)

// damage is what became known of the log's being damaged while it runs. From the first on nothing is applied, stored or
// written to a snapshot: it might stand on what is not there.
type damage struct {
	err   atomic.Pointer[error]
	found chan error // one at most
}

func newDamage() *damage { return &damage{found: make(chan error, 1)} }

func (d *damage) report(err error) {
	if d.err.CompareAndSwap(nil, &err) {
		d.found <- err
	}
}

func (d *damage) known() error {
	if p := d.err.Load(); p != nil {
		return *p
	}
	return nil
}

// opened says at the start of a server what was found in its log, and notes that all of it is relied on from here on.
func (l *Log) opened(store *guard, f files.Found) {
	for _, w := range f.Warnings {
		l.cfg.Log.Warn("something in the log's directory is damaged; it is not needed, because something older "+
			"replaces it", "error", w)
	}
	store.hold()
}

// dropEnd drops, and says, what was being written when the server ended.
func (l *Log) dropEnd(f files.Found) error {
	if f.Dropped == 0 {
		return nil
	}
	l.cfg.Log.Warn("the end of the log is not whole and is dropped: a write that was cut off and never acknowledged, "+
		"unless the disk damaged more", "path", files.WALDir(l.cfg.Dir), "bytes", f.Dropped, "last_entry", f.Last)
	return f.ClearDropped()
}

// dropOvertaken empties a log that ends before its newest whole snapshot. A server whose state is replaced, by a person
// or by the one that leads, writes the snapshot first and drops its entries then, and may end between the two. The
// snapshot has all of them; and no entry could be added that does not follow on the last.
func (l *Log) dropOvertaken(store *guard, f files.Found) error {
	if f.Last == 0 || f.Last >= f.Snapshot {
		return nil
	}
	l.cfg.Log.Info("the server ended while a snapshot took the place of its log; the entries before it are dropped",
		"snapshot", f.Snapshot, "first_entry", f.First, "last_entry", f.Last)
	return files.Classify(store.DeleteRange(f.First, f.Last), "shorten log", l.cfg.Dir)
}
