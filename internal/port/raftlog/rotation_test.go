package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"

	"berth/internal/port/kv"
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
	type (
		state   = types.PersistentState
		segment = types.SegmentInfo
	)
	const ends, contradicts = "its list ends before the last segment", "its list contradicts itself"
	nth := func(n int, change func(*segment)) func(Config) {
		return relisted(t, func(s *state) { change(&s.Segments[n]) })
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
		"without the middle": {relisted(t, func(s *state) { s.Segments = slices.Delete(s.Segments, 1, 2) }),
			"are missing in its list"},
		"without any":                      {relisted(t, func(s *state) { s.Segments = nil }), ends},
		"without the last":                 {relisted(t, func(s *state) { s.Segments = s.Segments[:2] }), ends},
		"with a later number for the next": {relisted(t, func(s *state) { s.NextSegmentID += 4 }), ends},
		"with another first entry of a segment": {nth(0, func(i *segment) { i.BaseIndex, i.MinIndex = 2, 2 }),
			"is not what"},
		"with another number of a segment":       {nth(1, func(i *segment) { i.ID = 0 }), "is not what"},
		"with entries dropped in the middle":     {nth(1, func(i *segment) { i.MinIndex++ }), contradicts},
		"with a first entry before the segment":  {nth(0, func(i *segment) { i.MinIndex = 0 }), contradicts},
		"with a last segment that takes nothing": {nth(2, func(i *segment) { i.SealTime = time.Now() }), contradicts},
		"with a last segment that has an end":    {nth(2, func(i *segment) { i.MaxIndex = i.BaseIndex }), contradicts},
		"with a first segment that takes more":   {nth(0, func(i *segment) { i.SealTime = time.Time{} }), contradicts},
		"with a code that nobody knows":          {nth(0, func(i *segment) { i.Codec = 9 }), contradicts},
		"without the size of a segment":          {nth(2, func(i *segment) { i.SizeLimit = 0 }), contradicts},
	} {
		damaged := copyDir(t, cfg)
		c.damage(damaged)
		if _, err := files.Check(damaged.Dir); err == nil || !strings.Contains(err.Error(), list(damaged)) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// relisted changes the list of segments of a log.
func relisted(t *testing.T, change func(*types.PersistentState)) func(Config) {
	return func(cfg Config) {
		t.Helper()
		db := &metadb.BoltMetaDB{}
		state, err := db.Load(files.WALDir(cfg.Dir))
		if err == nil {
			change(&state)
			err = db.CommitState(state)
		}
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// Given a log that was noted to be stored, and one of a server that was killed before it noted anything, when a bit of
// the list of segments changes, then the log is refused, or opens with every entry that no snapshot holds: pages of the
// list have no checksum.
func TestNoBitOfTheListOfSegmentsHidesAnEntry(t *testing.T) {
	for name, cfg := range map[string]Config{
		"noted":  writtenLog(t, Config{TrailingLogs: 10000}, 150, 300),
		"killed": copyDir(t, Config{Dir: stored(t, 20).dir, SegmentSize: 1 << 20}),
	} {
		cfg = cfg.withDefaults()
		was, err := files.Check(cfg.Dir)
		if err != nil || was.Last == 0 {
			t.Fatalf("%s: %+v, %v", name, was, err)
		}
		list := filepath.Join(files.WALDir(cfg.Dir), files.MetaFile)
		whole, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		segments := listOf(t, list)
		refused := 0
		for at, b := range whole {
			if b == 0 {
				continue
			}
			edit(t, list, func(data []byte) []byte { copy(data, whole); data[at] ^= 1 << (at % 8); return data })
			if _, err := files.Check(cfg.Dir); err != nil {
				refused++
				continue
			}
			if bytes.Equal(listOf(t, list), segments) {
				continue // it is where nothing is in use
			}
			if first, last := readable(t, cfg); first > was.Snapshot+1 || last != was.Last {
				t.Errorf("%s: with another byte %d, near %q, it has the entries %d to %d", name, at,
					whole[max(0, at-24):min(at+24, len(whole))], first, last)
			}
		}
		if refused == 0 {
			t.Errorf("%s: nothing was refused", name)
		}
	}
}

// listOf is the list of segments as it is stored.
func listOf(t *testing.T, path string) (list []byte) {
	t.Helper()
	err := kv.Read(path, metadb.MetaBucket, metadb.MetaKey, func(data []byte) error {
		list = bytes.Clone(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// readable are the first and the last entry that the library reads of a log, with all between them.
func readable(t *testing.T, cfg Config) (first, last uint64) {
	t.Helper()
	w, err := files.OpenWAL(copyDir(t, cfg).files())
	if err != nil {
		t.Fatal(err)
	}
	first, ferr := w.FirstIndex()
	last, lerr := w.LastIndex()
	for i := first; i <= last && ferr == nil; i++ {
		var e raft.Log
		if ferr = w.GetLog(i, &e); ferr == nil {
			ferr = files.Sound(&e)
		}
	}
	if err := errors.Join(ferr, lerr, w.Close()); err != nil {
		t.Errorf("of the entries %d to %d not all are read: %v", first, last, err)
	}
	return first, last
}

// awaitRotation returns when no rotation is under way: truncating nothing waits for it.
func awaitRotation(t *testing.T, w *wal.WAL) {
	t.Helper()
	if err := w.DeleteRange(0, 0); err != nil {
		t.Fatal(err)
	}
}

// Given a log of which a new segment is listed, as it was emptied or its last one filled, and was not made when the
// server was killed, then nothing counts as lost; once an entry may be in that segment, its file is missed.
func TestASegmentThatWasNeverMadeHeldNothing(t *testing.T) {
	for name, c := range map[string]struct {
		step func(g *guard) error // after which a new segment is there
		next uint64               // the first entry of it; 0: one that was stored
	}{
		"emptied": {func(g *guard) error { return g.DeleteRange(1, 3) }, 4},
		"filled": {func(g *guard) error {
			for next := uint64(4); files.TailOf(g.dir) == 1; next++ {
				e := &raft.Log{Index: next, Term: 1, Data: make([]byte, 4<<10)}
				// To drop nothing waits until a segment that is full was followed by another.
				if err := errors.Join(g.StoreLog(e), g.WAL.DeleteRange(0, 0)); err != nil {
					return err
				}
			}
			return nil
		}, 0},
	} {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stored: %t", name, stored), func(t *testing.T) {
				cfg := Config{Dir: filepath.Join(t.TempDir(), "raft"), SegmentSize: 64 << 10, Reserve: 1 << 20}
				g, err := openGuard(cfg.withDefaults(), &Counters{}, make(chan error, 1), newDamage())
				if err == nil {
					err = errors.Join(g.StoreLogs(entries(1, "111")), c.step(g))
				}
				last, failed := g.LastIndex()
				if stored && err == nil {
					err = g.StoreLogs(entries(max(c.next, last+1), "1"))
				}
				if err := errors.Join(err, failed); err != nil {
					t.Fatal(err)
				}
				g.close()
				path := files.SegmentOf(files.WALDir(cfg.Dir), 1<<40)
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				found, err := files.Check(cfg.Dir)
				if missed := err != nil || found.Unmade; missed != stored {
					t.Errorf("%s is missed: %t (%v)", path, missed, err)
				}
			})
		}
	}
}
