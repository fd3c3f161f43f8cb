package evidence

import (
	"context"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/port/hostfs"
)

// Dead says why the file system that an alloc's publication shows is dead by what the mount table shows; empty: that
// shows nothing of it. Read-only is death to a writer: what the volume was published for was to write.
func Dead(e *entry.Entry, alloc ids.Alloc, table *hostfs.Table) string {
	if !e.Shows(alloc) {
		return ""
	}
	m, mounted := table.At(e.Pubs[alloc].HostPath)
	writes := e.Writes(alloc)
	switch {
	case !mounted || !writes && m.Dead != "shutdown":
		return ""
	case m.Dead != "":
		return "its file system has given up (" + m.Dead + ")"
	case m.ReadOnly:
		return "its file system has become read-only"
	}
	return ""
}

// recent is how old a reading of the mount table may be by which an alloc starts for the first time. What dies within
// it is as what dies right after the start: the next look at all volumes in use shows it.
const recent = time.Second

// Shown is Dead by a recent reading of the mount table: no event says that a file system became read-only by itself,
// and a node that starts many allocs at once must not read a table of thousands of mounts for each.
func Shown(_ context.Context, e *entry.Entry, alloc ids.Alloc) (why string, err error) {
	table, err := hostfs.ReadTableWithin(recent)
	if err != nil {
		return "", err
	}
	return Dead(e, alloc, table), nil
}
