package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"

	"berth/internal/port/raftlog/files"
)

// small segments, so that they are soon full.
const smallSegment = 4 << 10

// segmentsOf are the files of a log's segments, in their order.
func segmentsOf(t *testing.T, cfg Config) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(files.WALDir(cfg.Dir), "*.wal"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// fill appends entries after the last until there are so many segments, and returns the last entry, and the list of
// segments as it was before the last one was made.
func fill(t *testing.T, cfg Config, w *wal.WAL, last uint64, segments int) (uint64, []byte) {
	t.Helper()
	var before []byte
	for len(segmentsOf(t, cfg)) < segments {
		var err error
		if before, err = os.ReadFile(filepath.Join(files.WALDir(cfg.Dir), files.MetaFile)); err != nil {
			t.Fatal(err)
		}
		last++
		if err := w.StoreLogs([]*raft.Log{{Index: last, Term: 1, Data: make([]byte, 256)}}); err != nil {
			t.Fatalf("the log takes nothing more: %v", err)
		}
		awaitRotation(t, w)
	}
	return last, before
}

// TestACrashBetweenSealingASegmentAndNotingItIsMended: given a log whose last segment was sealed, and whose list of
// segments is from before that, when it is opened, then every entry is there, it takes more, over segments to come, and
// is whole at each start.
func TestACrashBetweenSealingASegmentAndNotingItIsMended(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SegmentSize: smallSegment}
	w, err := files.OpenWAL(cfg.files())
	if err != nil {
		t.Fatal(err)
	}
	last, before := fill(t, cfg, w, 0, 2)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// What the crash left: the list of before, and no segment but the sealed one.
	edit(t, filepath.Join(files.WALDir(cfg.Dir), files.MetaFile), func([]byte) []byte { return before })
	remove(t, segmentsOf(t, cfg)[1])
	for _, segments := range []int{2, 3, 3, 5} { // once mended it stays so
		if w, err = files.OpenWAL(cfg.files()); err != nil {
			t.Fatal(err)
		}
		for i := uint64(1); i <= last; i++ {
			var e raft.Log
			if err := w.GetLog(i, &e); err != nil || len(e.Data) != 256 {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
		last, _ = fill(t, cfg, w, last, segments)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := files.Check(cfg.Dir); err != nil || got.Last != last {
			t.Fatalf("with %d segments: %+v, %v", segments, got, err)
		}
	}
}

// Given a list of segments that is older than the segments beside it, by one or by more, or that lacks one of them,
// when the log is checked, then it is refused: what the newer ones hold would be overwritten, or left out.
func TestAListThatLacksASegmentIsRefused(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SegmentSize: smallSegment}
	w, err := files.OpenWAL(cfg.files())
	if err != nil {
		t.Fatal(err)
	}
	last, first := fill(t, cfg, w, 0, 2)
	last, second := fill(t, cfg, w, last, 3)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := files.Check(cfg.Dir); err != nil || got.Last != last {
		t.Fatalf("before: %+v, %v", got, err)
	}
	list := func(c Config) string { return filepath.Join(files.WALDir(c.Dir), files.MetaFile) }
	put := func(old []byte) func(Config) {
		return func(c Config) { edit(t, list(c), func([]byte) []byte { return old }) }
	}
	for name, c := range map[string]struct {
		damage func(Config)
		says   string
	}{
		"older by one": {put(second), "it is older than"},
		"older by two": {put(first), "it is older than"},
		"without the middle": {func(c Config) {
			relist(t, c, func(s []types.SegmentInfo) []types.SegmentInfo { return slices.Delete(s, 1, 2) })
		}, "are missing in its list"},
	} {
		damaged := copyDir(t, cfg)
		c.damage(damaged)
		if _, err := files.Check(damaged.Dir); err == nil || !strings.Contains(err.Error(), list(damaged)) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// relist changes the list of segments.
func relist(t *testing.T, cfg Config, change func([]types.SegmentInfo) []types.SegmentInfo) {
	t.Helper()
	db := &metadb.BoltMetaDB{}
	state, err := db.Load(files.WALDir(cfg.Dir))
	if err == nil {
		state.Segments = change(state.Segments)
		err = db.CommitState(state)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// awaitRotation returns when no rotation is under way: truncating nothing waits for it.
func awaitRotation(t *testing.T, w *wal.WAL) {
	t.Helper()
	if err := w.DeleteRange(0, 0); err != nil {
		t.Fatal(err)
	}
}
