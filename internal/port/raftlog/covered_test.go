package raftlog

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
	"berth/internal/testkit/powerloss"
)

// flipEntry changes a byte of the entry that holds a number, in whichever segment it is.
func flipEntry(n uint64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		segments := segmentsOf(t, Config{Dir: dir})
		at := slices.IndexFunc(segments, func(path string) bool {
			data, err := os.ReadFile(path)
			return err == nil && bytes.Contains(data, number(n))
		})
		if at < 0 {
			t.Fatalf("no segment holds entry %d", n)
		}
		edit(t, segments[at], flip(n))
	}
}

// all does one damage after the other.
func all(damages ...func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		for _, damage := range damages {
			damage(t, dir)
		}
	}
}

// Given a lone voter whose log is damaged, when it starts, then it does without what a whole snapshot of it holds, says
// so, and goes on whole; of anything later nothing is left out: it is refused, and nothing is changed.
func TestALoneVoterDoesWithoutWhatItsSnapshotHolds(t *testing.T) {
	kept := writtenLog(t, Config{TrailingLogs: 10000}, 150, 300)
	newest := onFile("snapshots/*/state.bin$", zeros)
	for name, c := range map[string]struct {
		damage func(*testing.T, string)
		opens  bool
	}{
		"a byte":                        {flipEntry(20), true},
		"a byte of the last one held":   {flipEntry(300), true},
		"two bytes, apart":              {all(flipEntry(20), flipEntry(250)), true},
		"the head of a segment":         {onFile("wal/*.wal", flipped(9)), true},
		"the list of a segment":         {onFile("wal/*.wal", flipped(-20)), true},
		"half of a segment":             {onFile("wal/*.wal", half), true},
		"a whole segment":               {gone("wal/*.wal"), true},
		"a byte that the older one has": {all(flipEntry(20), newest), true},
		"a byte of the first after it":  {flipEntry(301), false},
		"a byte, and one after it":      {all(flipEntry(20), flipEntry(350)), false},
		"a byte, and the last one":      {all(flipEntry(20), flipEntry(damagedEntries)), false},
		"a byte after the older one":    {all(flipEntry(200), newest), false},
		"a byte, and no snapshot":       {all(flipEntry(20), gone("snapshots")), false},
		"a byte, and both snapshots":    {all(flipEntry(20), both("snapshots/*/state.bin", zeros)), false},
		"a byte, and the list of segments": {all(flipEntry(20), onFile("wal/"+files.MetaFile, cleared(8192, 1<<30))),
			false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := copyDir(t, kept)
			c.damage(t, cfg.Dir)
			before := tree(t, cfg.Dir)
			replayed := &adder{}
			_, unreplayed := Replay(cfg.Dir, replayed)
			if tree(t, cfg.Dir) != before {
				t.Error("a replay has changed something")
			}
			sum, said, err := reopen(t, cfg)
			if !c.opens {
				if !fault.Has(err, fault.Internal) || !strings.Contains(err.Error(), "nothing was changed") {
					t.Fatalf("it was opened: the sum is %d (%v), and it said:\n%s", sum, err, said)
				}
				if after := tree(t, cfg.Dir); after != before {
					t.Errorf("something was changed; before:\n%s\nafter:\n%s", before, after)
				}
				return
			}
			const want = damagedEntries * (damagedEntries + 1) / 2
			if err != nil || sum != want {
				t.Fatalf("the sum is %d (%v), and it said:\n%s", sum, err, said)
			}
			if unreplayed != nil || replayed.total() != want {
				t.Errorf("replayed beforehand the sum was %d: %v", replayed.total(), unreplayed)
			}
			for _, says := range []string{"level=WARN", "a whole snapshot holds the same", cfg.Dir, ".wal"} {
				if !strings.Contains(said, says) {
					t.Errorf("it does not say %q:\n%s", says, said)
				}
			}
			if _, err := files.Check(cfg.Dir); err != nil {
				t.Errorf("afterwards it is damaged: %v", err)
			}
			if sum, said, err := reopen(t, cfg); err != nil || sum != want || strings.Contains(said, "level=WARN") {
				t.Errorf("at the next start the sum is %d (%v), and it said:\n%s", sum, err, said)
			}
		})
	}
}

// Given a lone voter that does without what its snapshot holds, when the power fails at any moment of its start, then
// the next one has everything.
func TestAPowerLossWhileALogDoesWithoutLosesNothing(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{Cuts: 16, Delay: 2 * time.Millisecond})
	kept := writtenLog(t, Config{TrailingLogs: 10000}, 150, 300)
	flipEntry(20)(t, kept.Dir)
	cfg := kept
	cfg.Dir = filepath.Join(d.Dir, "raft")
	if err := os.CopyFS(cfg.Dir, os.DirFS(kept.Dir)); err != nil {
		t.Fatal(err)
	}
	syncAll(t, cfg.Dir)
	d.Ack()
	const want = damagedEntries * (damagedEntries + 1) / 2
	if sum, said, err := reopen(t, cfg); err != nil || sum != want {
		t.Fatalf("the sum is %d (%v), and it said:\n%s", sum, err, said)
	}
	d.Ack()
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		if c.Acked == 0 {
			return
		}
		again := cfg
		again.Dir = filepath.Join(dir, "raft")
		if sum, said, err := reopen(t, again); err != nil || sum != want {
			t.Errorf("the sum is %d (%v), and it said:\n%s", sum, err, said)
		}
	})
}
