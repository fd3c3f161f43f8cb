package raftlog

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

func testGuard(failed chan<- error) *guard {
	return &guard{
		dir:      "/somewhere",
		log:      slog.New(slog.DiscardHandler),
		counters: &Counters{},
		failed:   failed,
		stopped:  make(chan struct{}),
	}
}

func TestATermWaitsForSpaceOnTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, tries := testGuard(nil), 0
		done := make(chan error)
		go func() {
			done <- g.stable(func() error {
				if tries++; tries < 4 {
					return fmt.Errorf("write: %w", syscall.ENOSPC)
				}
				return nil
			})
		}()
		time.Sleep(retryStable / 2)
		if err := g.healthy(true); !fault.Has(err, fault.Exhausted) {
			t.Errorf("meanwhile proposals were answered %v", err)
		}
		if err := <-done; err != nil || tries != 4 {
			t.Errorf("after %d tries: %v", tries, err)
		}
		if err := g.healthy(true); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}

func TestNothingIsBuiltOnATermThatIsNotOnDisk(t *testing.T) {
	failed := make(chan error, 1)
	g := testGuard(failed)
	if err := g.stable(func() error { return syscall.EIO }); err != nil {
		t.Errorf("Raft would end the process: %v", err)
	}
	if err := <-failed; !fault.Has(err, fault.Internal) {
		t.Errorf("the log received %v", err)
	}
	if err := g.StoreLogs([]*raft.Log{{Index: 1}}); !fault.Has(err, fault.Internal) {
		t.Errorf("an entry was answered %v", err)
	}

	synctest.Test(t, func(t *testing.T) { // the log is closed while a term waits for room
		g := testGuard(nil)
		done := make(chan error)
		go func() { done <- g.stable(func() error { return syscall.ENOSPC }) }()
		synctest.Wait()
		g.stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := g.StoreLogs([]*raft.Log{{Index: 1}}); !fault.Has(err, fault.Exhausted) {
			t.Errorf("an entry was answered %v", err)
		}
	})
}

func TestALogThatIsThereOpensOnAFullDisk(t *testing.T) {
	dir := small(t, 12)
	cfg := Config{Dir: filepath.Join(dir, "log"), Reserve: 4 << 20}
	l := start(t, cfg, &adder{})
	if _, _, err := l.Apply(t.Context(), number(5)); err != nil {
		t.Fatal(err)
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	ballast := make([]byte, int64(st.Bavail-20)*st.Bsize) // all but a few pages
	if err := os.WriteFile(filepath.Join(dir, "ballast"), ballast, 0o600); err != nil {
		t.Fatal(err)
	}
	sm := &adder{}
	l = start(t, cfg, sm)
	if _, _, err := l.Apply(t.Context(), number(1)); !fault.Has(err, fault.Exhausted) {
		t.Errorf("new work: %v", err)
	}
	if _, _, err := l.ApplyReleasing(t.Context(), number(1)); err != nil {
		t.Errorf("releasing: %v", err)
	}
	if n := l.Stats()["refused_disk_full"]; n != "1" {
		t.Errorf("%q entries were counted as refused, not 1", n)
	}
	if sm.total() != 6 {
		t.Errorf("the sum is %d", sm.total())
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	err := New(Config{Dir: filepath.Join(dir, "new"), ID: "x"}, &adder{}).Run(t.Context())
	if !fault.Has(err, fault.Exhausted) {
		t.Errorf("a new log on a full disk: %v", err)
	}
}

// Given a disk on which a first segment and as much as is kept back do not both fit, when a new log is begun there,
// then that is refused, and nothing was begun; where they fit, it begins.
func TestANewLogNeedsDiskForItsFirstSegmentAndTheReserve(t *testing.T) {
	for mib, fits := range map[int]bool{6: false, 12: true} {
		cfg := Config{Dir: filepath.Join(small(t, mib), "log"), SegmentSize: 4 << 20, Reserve: 4 << 20}
		g, err := openGuard(cfg.withDefaults(), &Counters{}, make(chan error, 1), newDamage())
		if fits {
			if err != nil {
				t.Fatalf("with %d MiB: %v", mib, err)
			}
			g.close()
			continue
		}
		if err == nil {
			g.close()
		}
		if !fault.Has(err, fault.Exhausted) || !strings.Contains(err.Error(), "8 MiB are needed") {
			t.Errorf("with %d MiB: %v", mib, err)
		}
		if text := err.Error(); !strings.Contains(text, "4 MiB for its first segment and leaves 4 MiB free") ||
			strings.Contains(text, "still work") {
			t.Errorf("with %d MiB it is not said what needs it: %v", mib, err)
		}
		if files.Begun(cfg.Dir) {
			t.Error("something was begun")
		}
	}
}

// stored is a log with entries that a server which was killed has left, open still.
func stored(t *testing.T, n uint64) *guard {
	t.Helper()
	g := openedGuard(t, smallLog(t))
	for i := range n {
		e := raft.Log{Index: i + 1, Term: 1, Data: append(number(i+1), make([]byte, 100)...)}
		if err := g.StoreLog(&e); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// Given entries that another leader's replace, and that were noted as stored, when the server is killed after it has
// dropped them, then its log is whole, and ends before them; and what is dropped from the beginning changes nothing of
// what is known of the end.
func TestWhatIsDroppedIsNotLost(t *testing.T) {
	g := stored(t, files.HeldEvery+20)
	killed := copyDir(t, Config{Dir: g.dir})
	if err := g.DeleteRange(200, files.HeldEvery+20); err != nil {
		t.Fatal(err)
	}
	if got, err := files.Check(copyDir(t, Config{Dir: g.dir}).Dir); err != nil || got.Last != 199 {
		t.Errorf("its entries end with %d: %v", got.Last, err)
	}
	g = openedGuard(t, Config{Dir: killed.Dir, SegmentSize: 1 << 20, Reserve: 1 << 20})
	if err := g.DeleteRange(1, 10); err != nil {
		t.Fatal(err)
	}
	if held, err := g.GetUint64(files.HeldKey); err != nil || held != files.HeldEvery {
		t.Errorf("after the first were dropped, %d are known to be stored: %v", held, err)
	}
}

// Given a log that a server has opened, and that was damaged at its end after the server was killed, when it is
// checked, then that is no write that was cut off: what was read at a start was acknowledged, or is from then on.
func TestWhatWasThereAtAStartIsNoCutOffWrite(t *testing.T) {
	g := stored(t, 20)
	killed := copyDir(t, Config{Dir: g.dir})
	edit(t, one(t, killed.Dir, "wal/*.wal", true), flip(20))
	if got, err := files.Check(killed.Dir); err != nil || got.Last != 19 || got.Dropped == 0 {
		t.Fatalf("of one that nobody has opened since: %+v, %v", got, err)
	}
	New(Config{Dir: g.dir}, &adder{}).opened(g, files.Found{})
	killed = copyDir(t, Config{Dir: g.dir})
	edit(t, one(t, killed.Dir, "wal/*.wal", true), flip(20))
	if _, err := files.Check(killed.Dir); err == nil || !strings.Contains(err.Error(), "entry 20 is damaged") {
		t.Errorf("it says %v", err)
	}
}

// Given what the disk and the library answer, then callers learn which entry was refused, and of which it is
// not known.
func TestAFailureHasTheKindThatSaysWhatBecameOfTheEntry(t *testing.T) {
	l := New(Config{Dir: t.TempDir()}, &adder{})
	for _, c := range []struct {
		err  error
		kind fault.Kind
		says string
	}{
		{raft.ErrNotLeader, fault.Unavailable, "the entry was not written"},
		{raft.ErrRaftShutdown, fault.Unavailable, "propose"},
		{raft.ErrLeadershipTransferInProgress, fault.Unavailable, "the entry was not written"},
		{raft.ErrLeadershipLost, fault.Timeout, "whether it is applied is not known"},
		{raft.ErrAbortedByRestore, fault.Timeout, "whether it is applied is not known"},
		{fmt.Errorf("write: %w", syscall.ENOSPC), fault.Exhausted, "free some room"},
		{fmt.Errorf("write: %w", syscall.EDQUOT), fault.Exhausted, "free some room"},
		{syscall.EIO, fault.Internal, l.cfg.Dir},
	} {
		got := l.failed(c.err, testGuard(nil))
		if !fault.Has(got, c.kind) || !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%v is answered as %v: %v", c.err, fault.KindOf(got), got)
		}
		const sure = "was not written"
		if strings.Contains(got.Error(), sure) && !strings.Contains(c.says, sure) {
			t.Errorf("%v is no word that an entry was not written: %v", c.err, got)
		}
		deposed := errors.Is(c.err, raft.ErrNotLeader) || errors.Is(c.err, raft.ErrLeadershipLost)
		if IsDeposed(errors.Join(nil, got)) != deposed {
			t.Errorf("%v says that the server leads no more: %t", got, !deposed)
		}
	}
	sick := testGuard(make(chan error, 1))
	if err := sick.stable(func() error { return syscall.EIO }); err != nil {
		t.Fatal(err)
	}
	if got := l.failed(raft.ErrNotLeader, sick); !errors.Is(got, syscall.EIO) {
		t.Errorf("of a log that cannot be written it says %v", got)
	}
}
