package raftlog

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/internal/port/raftlog/files"
	"berth/internal/testkit/powerloss"
)

// Given a log that is written to, filled segments and snapshots among it, when the power fails at any moment, then the
// next run has every entry that was acknowledged, and at most the one that was on its way.
func TestAPowerLossTakesNoEntry(t *testing.T) {
	surviveCuts(t, powerloss.Config{Cuts: 16, Delay: 2 * time.Millisecond}, 120, 25)
}

// Given snapshots, when the power fails at every single point on the way to them, and to the end of the first, which
// makes room for the third, then every acknowledged entry is there: between two steps there are few points, and many
// may be passed by. No half of a snapshot is taken for damage, and nothing of one stays.
func TestAPowerLossInASnapshotTakesNoEntry(t *testing.T) {
	surviveCuts(t, powerloss.Config{}, 3, 1)
}

// surviveCuts brings entries into a log, with a snapshot after each so many, and starts it from each cut.
func surviveCuts(t *testing.T, cuts powerloss.Config, entries, every uint64) {
	t.Helper()
	d := powerloss.Mount(t, cuts)
	run := func(t *testing.T, dir string) (running, *adder) {
		sm := &adder{}
		cfg := Config{Dir: filepath.Join(dir, "server", "raft"), SegmentSize: 16 << 10, TrailingLogs: 4}
		return start(t, cfg, sm), sm
	}
	l, _ := run(t, d.Dir)
	for n := range entries {
		// Numbers of eight bytes in entries of different lengths, so that they fill pages and segments unevenly.
		entry := append(number(n+1), make([]byte, n*37%1500)...)
		if _, _, err := l.Apply(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		d.Ack()
		if n%every == every-1 {
			if err := l.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		// What has the name of a snapshot is a whole one, also where the entries since an older one are there.
		if found, err := files.Check(filepath.Join(dir, "server", "raft")); err != nil || len(found.Warnings) > 0 {
			t.Errorf("of its files it says %v, %v", found.Warnings, err)
		}
		l, sm := run(t, dir)
		left, err := os.ReadDir(filepath.Join(dir, "server", "raft", "snapshots"))
		if err != nil || len(left) > files.KeptSnapshots || slices.ContainsFunc(left, unfinished) {
			t.Errorf("of its snapshots there are %v (%v)", left, err)
		}
		if err := l.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		sumOf := func(n int) uint64 { return uint64(n) * uint64(n+1) / 2 }
		if got := sm.total(); got != sumOf(c.Acked) && got != sumOf(c.Acked+1) {
			t.Errorf("the sum is %d, that of the acknowledged entries is %d", got, sumOf(c.Acked))
		}
		if _, _, err := l.Apply(t.Context(), number(1)); err != nil {
			t.Errorf("one more entry: %v", err)
		}
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
}

func unfinished(e os.DirEntry) bool { return filepath.Ext(e.Name()) == ".tmp" }

// Given a log with entries, when the state is replaced, and the power fails at every single point on the way, then the
// next run has the state from before, whole, or the one that took its place; the latter, once it was acknowledged; and
// it goes on with either.
func TestAPowerLossInARestoreLeavesOneOfTwoStates(t *testing.T) {
	const entries, added = 5, 7
	const restored = 1_000_000 // the sum in the state that takes the place of the other
	before := uint64(entries * (entries + 1) / 2)
	d := powerloss.Mount(t, powerloss.Config{})
	run := func(t *testing.T, dir string) (running, *adder) {
		sm := &adder{}
		cfg := Config{Dir: filepath.Join(dir, "server", "raft"), SegmentSize: 16 << 10, TrailingLogs: 4}
		return start(t, cfg, sm), sm
	}
	l, _ := run(t, d.Dir)
	for n := range uint64(entries) {
		if _, _, err := l.Apply(t.Context(), number(n+1)); err != nil {
			t.Fatal(err)
		}
		d.Ack()
	}
	if err := l.Restore(t.Context(), 100, number(restored)); err != nil {
		t.Fatal(err)
	}
	d.Ack()
	if _, _, err := l.Apply(t.Context(), number(added)); err != nil {
		t.Fatal(err)
	}
	d.Ack()
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	old, replaced := 0, 0
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		if c.Acked < entries {
			return // other tests' points: the restore has not begun
		}
		if found, err := files.Check(filepath.Join(dir, "server", "raft")); err != nil || len(found.Warnings) > 0 {
			t.Errorf("of its files it says %v, %v", found.Warnings, err)
		}
		l, sm := run(t, dir)
		if err := l.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		switch got := sm.total(); {
		case got == before && c.Acked == entries:
			old++
		case got == restored && c.Acked <= entries+1, got == restored+added && c.Acked >= entries+1:
			replaced++
		default:
			t.Errorf("with %d acknowledged the sum is %d", c.Acked, got)
		}
		was := sm.total()
		if _, _, err := l.Apply(t.Context(), number(1)); err != nil || sm.total() != was+1 {
			t.Errorf("one more entry: %v, the sum is %d after %d", err, sm.total(), was)
		}
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
	if old == 0 || replaced == 0 {
		t.Errorf("of the cuts %d have the state from before, %d the other", old, replaced)
	}
	t.Logf("%d cuts have the state from before, %d the one that took its place", old, replaced)
}
