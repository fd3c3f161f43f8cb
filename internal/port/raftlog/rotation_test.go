package raftlog

import (
	"os"
	"path/filepath"
	"testing"

	wal "github.com/hashicorp/raft-wal"

	"github.com/hashicorp/raft"

	"berth/internal/port/raftlog/files"
)

// TestACrashBetweenSealingASegmentAndNotingItIsMended: given a log whose last segment was sealed, and whose list of
// segments is from before that, when it is opened, then every entry is there and it takes more.
func TestACrashBetweenSealingASegmentAndNotingItIsMended(t *testing.T) {
	const size = 4 << 10
	cfg := Config{Dir: t.TempDir(), SegmentSize: size}
	w, err := files.OpenWAL(cfg.files())
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(files.WALDir(cfg.Dir), files.MetaFile)
	var before []byte
	segments := func() int {
		found, err := filepath.Glob(filepath.Join(files.WALDir(cfg.Dir), "*.wal"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	last := uint64(0)
	for segments() < 2 {
		if before, err = os.ReadFile(list); err != nil {
			t.Fatal(err)
		}
		last++
		if err := w.StoreLogs([]*raft.Log{{Index: last, Term: 1, Data: make([]byte, 256)}}); err != nil {
			t.Fatal(err)
		}
		awaitRotation(t, w)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// What the crash left: the list of before, and no segment but the sealed one.
	if err := os.WriteFile(list, before, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(files.WALDir(cfg.Dir), "*.wal"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(found[len(found)-1]); err != nil {
		t.Fatal(err)
	}
	for range 2 { // once mended it stays so
		if w, err = files.OpenWAL(cfg.files()); err != nil {
			t.Fatal(err)
		}
		for i := uint64(1); i <= last; i++ {
			var e raft.Log
			if err := w.GetLog(i, &e); err != nil || len(e.Data) != 256 {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
		last++
		if err := w.StoreLogs([]*raft.Log{{Index: last, Term: 1, Data: make([]byte, 256)}}); err != nil {
			t.Fatalf("the log takes nothing more: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitRotation returns when no rotation is under way: truncating nothing waits for it.
func awaitRotation(t *testing.T, w *wal.WAL) {
	t.Helper()
	if err := w.DeleteRange(0, 0); err != nil {
		t.Fatal(err)
	}
}
