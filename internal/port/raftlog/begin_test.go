package raftlog

import (
	"log/slog"
	"testing"

	"berth/internal/port/raftlog/files"
)

// Given a new segment whose note (files.BegunKey) could not be written, when the entry comes again, then it is not
// acknowledged before the note is on disk.
func TestANoteThatFailedIsWrittenWithTheNextEntry(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	w, err := files.OpenWAL(files.Options{Dir: t.TempDir(), SegmentSize: 1 << 20, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	broken, err := files.OpenWAL(files.Options{Dir: t.TempDir(), SegmentSize: 1 << 20, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	g := &guard{log: log}
	g.WAL = w
	if err := g.beginAnew(); err != nil {
		t.Fatal(err)
	}
	g.notes.made.Store(100) // a segment was made that begins with entry 100

	g.WAL = broken // the disk is full, say
	if err := g.begin(100); err == nil {
		t.Fatal("a note that could not be written is no error")
	}
	g.WAL = w // there is room again, and the entry comes again
	if err := g.begin(100); err != nil {
		t.Fatal(err)
	}
	if recorded, err := w.GetUint64(files.BegunKey); err != nil || recorded != 100 {
		t.Errorf("entry 100 may be acknowledged, and the note says that the newest segment with acknowledged entries "+
			"begins with %d (%v)", recorded, err)
	}
}
