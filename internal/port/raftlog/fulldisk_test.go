package raftlog

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

// fullDisk is a guard of a server of several on a small disk, and what fills that up to so many bytes.
func fullDisk(t *testing.T) (g *guard, cfg Config, fill func(left int64) (free func())) {
	t.Helper()
	dir := small(t, 24)
	cfg = Config{Dir: filepath.Join(dir, "log"), SegmentSize: 1 << 20, Reserve: 4 << 20}
	_, cfg.Transport = raft.NewInmemTransport("a")
	g, err := openGuard(cfg.withDefaults(), &Counters{}, make(chan error, 1), newDamage())
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	return g, cfg, func(left int64) func() {
		awaitRotation(t, g.WAL)
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		err := os.WriteFile(ballast, make([]byte, int64(st.Bavail)*st.Bsize-left), 0o600)
		if err != nil && !files.IsFull(err) {
			t.Fatal(err)
		}
		return func() {
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// within fails when something does not return.
func within(t *testing.T, what string, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not return", what)
		return nil
	}
}

// TestEntriesAreRefusedOnAFullDiskAndTakenAgain: given a full disk, when a segment has no room for more, or the
// next one cannot be made, then entries are refused at once, again and again, and nothing is dropped; with room again
// the same log takes them, and is whole.
func TestEntriesAreRefusedOnAFullDiskAndTakenAgain(t *testing.T) {
	g, cfg, fill := fullDisk(t)
	last := uint64(0)
	store := func() error {
		return within(t, "an append", func() error {
			err := g.StoreLog(&raft.Log{Index: last + 1, Term: 1, Data: make([]byte, 32<<10)})
			if err == nil {
				last++
			}
			return err
		})
	}
	for round, left := range []int64{0, 700 << 10, 0, 700 << 10} {
		free := fill(left)
		var err error
		for err == nil {
			err = store()
		}
		for range 3 {
			if err := store(); !fault.Has(err, fault.Exhausted) {
				t.Fatalf("round %d: an entry is answered %v", round, err)
			}
		}
		err = within(t, "to drop entries", func() error { return g.DeleteRange(last, last) })
		if !fault.Has(err, fault.Exhausted) {
			t.Errorf("round %d: to drop entries is answered %v", round, err)
		}
		if got, err := g.LastIndex(); err != nil || got != last {
			t.Errorf("round %d: the log ends with %d, not %d: %v", round, got, last, err)
		}
		free()
		for end := time.Now().Add(30 * time.Second); store() != nil; {
			if time.Now().After(end) {
				t.Fatalf("round %d: with room again nothing is taken", round)
			}
		}
		if g.sick.Load() != nil {
			t.Fatalf("it takes nothing any more: %v", *g.sick.Load())
		}
	}
	g.close()
	if found, err := files.Check(cfg.Dir); err != nil || found.Last != last {
		t.Errorf("the log ends with %d, not %d: %v", found.Last, last, err)
	}
}

// TestTermAndVoteAreWrittenOnAFullDisk: given a full disk, then a new term is on it at once, from what was set aside,
// which is set aside again when there is room.
func TestTermAndVoteAreWrittenOnAFullDisk(t *testing.T) {
	g, cfg, fill := fullDisk(t)
	defer g.close()
	for round := range uint64(2) {
		free := fill(0)
		term := func() error { return g.SetUint64(files.CurrentTerm, 7+round) }
		if err := within(t, "a new term", term); err != nil || g.starved.Load() != nil {
			t.Fatalf("the term is not written: %v", err)
		}
		free()
		if err := term(); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Join(cfg.Dir, files.AsideFile))
		if err != nil || st.Sys().(*syscall.Stat_t).Blocks == 0 {
			t.Errorf("nothing is set aside any more: %v", err)
		}
	}
}
