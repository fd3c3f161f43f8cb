package raftlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/raftlog/files"
)

// adder is a state machine that sums numbers and refuses zero.
type adder struct {
	mu      sync.Mutex
	sum     uint64
	batches int
	entries int
}

var errZero = errors.New("zero adds nothing")

func (a *adder) ApplyBatch(entries []Entry) []any {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.entries += len(entries)
	if len(entries) > 0 {
		a.batches++
	}
	out := make([]any, len(entries))
	for i, e := range entries {
		n := binary.BigEndian.Uint64(e.Data)
		if n == 0 {
			out[i] = errZero
			continue
		}
		a.sum += n
		out[i] = a.sum
	}
	return out
}

func (a *adder) Snapshot() (func(io.Writer) error, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := a.sum
	return func(w io.Writer) error { return binary.Write(w, binary.BigEndian, sum) }, nil
}

func (a *adder) Restore(r io.Reader) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return binary.Read(r, binary.BigEndian, &a.sum)
}

func (a *adder) total() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sum
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

type running struct {
	*Log
	stop func() error
}

// start runs a log and waits until it leads.
func start(t *testing.T, cfg Config, sm StateMachine) running {
	t.Helper()
	cfg.ID = "one"
	if cfg.SegmentSize == 0 {
		cfg.SegmentSize = 1 << 20
	}
	if cfg.Reserve == 0 {
		cfg.Reserve = 1 << 20
	}
	l := New(cfg, sm)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx); close(ended) }()
	var once sync.Once
	var err error
	stop := func() error { once.Do(func() { cancel(); err = <-ended }); return err }
	t.Cleanup(func() { _ = stop() })
	for {
		lead, changed := l.Leadership()
		if lead.Leading {
			return running{l, stop}
		}
		select {
		case <-changed:
		case err := <-ended:
			t.Fatalf("the log ended: %v", err)
		case <-time.After(30 * time.Second):
			t.Fatal("no leader after half a minute")
		}
	}
}

func TestALoneServerLeadsAtOnceAndQuietly(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := start(t, Config{Dir: t.TempDir(), Log: log}, &adder{})
		if took := time.Since(begin); took > 110*time.Millisecond {
			t.Errorf("leader after %s", took)
		}
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
	if said.Len() > 0 {
		t.Errorf("a clean start said:\n%s", said.String())
	}
}

func TestAnEntryIsAppliedAndSurvivesReopening(t *testing.T) {
	dir := t.TempDir()
	l := start(t, Config{Dir: dir}, &adder{})
	for n := uint64(1); n <= 10; n++ {
		if _, _, err := l.Apply(t.Context(), number(n)); err != nil {
			t.Fatal(err)
		}
	}
	v, index, err := l.Apply(t.Context(), number(45))
	if err != nil || v != uint64(100) || index == 0 {
		t.Fatalf("got %v at %d, %v", v, index, err)
	}
	if _, _, err := l.Apply(t.Context(), number(0)); !errors.Is(err, errZero) {
		t.Errorf("the state machine's refusal came back as %v", err)
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Apply(t.Context(), number(1)); !fault.Has(err, fault.Unavailable) {
		t.Errorf("a closed log answered %v", err)
	}
	again := &adder{}
	l = start(t, Config{Dir: dir}, again)
	term, err := l.Establish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := again.total(); got != 100 {
		t.Errorf("after reopening the sum is %d", got)
	}
	if err := l.Confirm(t.Context(), term); err != nil {
		t.Error(err)
	}
	if err := l.Confirm(t.Context(), term-1); !fault.Has(err, fault.Unavailable) {
		t.Errorf("a term that is over is confirmed: %v", err)
	}
}

func TestASnapshotReplacesTheLog(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, TrailingLogs: 1}
	l := start(t, cfg, &adder{})
	for range 50 {
		if _, _, err := l.Apply(t.Context(), number(2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	again := &adder{}
	l = start(t, cfg, again)
	if err := l.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := again.total(); got != 100 {
		t.Errorf("the sum is %d", got)
	}
	if again.batches > 2 {
		t.Errorf("%d batches were replayed beside the snapshot", again.batches)
	}
}

// TestALogThatNeverLivesLongIsShortened: a server that is killed again and again, each time before Raft looks for the
// first time whether a snapshot is due, reads at each start what was written since the start before, and not all that
// was ever written.
func TestALogThatNeverLivesLongIsShortened(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SnapshotThreshold: 10, TrailingLogs: 1, interval: time.Hour}
	const each = 19
	for run := range 6 {
		sm := &adder{}
		l := start(t, cfg, sm)
		if err := l.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := sm.total(); got != uint64(run*each) {
			t.Fatalf("run %d begins with the sum %d, want %d", run, got, run*each)
		}
		if sm.entries > 2*each {
			t.Errorf("run %d reads %d entries", run, sm.entries)
		}
		deadline := time.Now().Add(30 * time.Second)
		for run > 0 && newestIn(t, cfg) < uint64(run*each) {
			if time.Now().After(deadline) {
				t.Fatalf("run %d leaves all that it read in the log", run)
			}
			time.Sleep(time.Millisecond)
		}
		for range each {
			if _, _, err := l.Apply(t.Context(), number(1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// Given a server that writes little, or much in few entries, when the first of them is old, or they are large, then the
// state is written to a snapshot; and while nothing is written, no other snapshot is.
func TestTheLogIsShortenedByAgeAndBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Dir: t.TempDir(), SnapshotBytes: 1 << 20, SnapshotAge: 10 * time.Minute}
		l := start(t, cfg, &adder{})
		apply := func(size int) {
			t.Helper()
			if _, _, err := l.Apply(t.Context(), append(number(1), make([]byte, size)...)); err != nil {
				t.Fatal(err)
			}
		}
		apply(0)
		time.Sleep(9 * time.Minute)
		if got := newestIn(t, cfg); got > 0 {
			t.Errorf("a snapshot up to %d after nine minutes", got)
		}
		time.Sleep(2 * time.Minute)
		aged := newestIn(t, cfg)
		if aged == 0 {
			t.Fatal("no snapshot after eleven minutes")
		}
		for range 3 {
			apply(400 << 10)
		}
		time.Sleep(time.Minute)
		large := newestIn(t, cfg)
		if large <= aged {
			t.Errorf("the snapshot of more than a MiB is up to %d, the one before %d", large, aged)
		}
		apply(0) // what the snapshot holds counts no more, neither by its size nor by its age
		time.Sleep(9 * time.Minute)
		if got := newestIn(t, cfg); got != large {
			t.Errorf("one small entry after the snapshot up to %d there is another one up to %d", large, got)
		}
		time.Sleep(2 * time.Minute)
		kept := one(t, cfg.Dir, "snapshots/*", true)
		time.Sleep(3 * time.Hour)
		if got := one(t, cfg.Dir, "snapshots/*", true); got != kept {
			t.Errorf("of a quiet server another snapshot was written: %s after %s", got, kept)
		}
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
}

// newestIn is up to which entry there is a snapshot. It may be asked beside a log that writes one.
func newestIn(t *testing.T, cfg Config) uint64 {
	t.Helper()
	quiet := files.NewLogger(slog.New(slog.DiscardHandler))
	snaps, err := raft.NewFileSnapshotStoreWithLogger(cfg.Dir, files.KeptSnapshots, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return newest(snaps)
}

func TestConcurrentProposalsShareFsyncs(t *testing.T) {
	sm := &adder{}
	l := start(t, Config{Dir: t.TempDir()}, sm)
	before := l.Counters().Read()
	const writers, each = 64, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if _, _, err := l.Apply(t.Context(), number(1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	after := l.Counters().Read()
	if sm.total() != writers*each {
		t.Errorf("the sum is %d", sm.total())
	}
	entries, appends := after.Entries-before.Entries, after.Appends-before.Appends
	if entries < writers*each || appends > entries/4 {
		t.Errorf("%d entries took %d fsyncs", entries, appends)
	}
}

// small mounts a file system of a few MiB.
func small(t *testing.T, mib int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestAFullDiskRefusesNewWorkAndTakesReleases(t *testing.T) {
	dir := small(t, 12)
	sm := &adder{}
	l := start(t, Config{Dir: filepath.Join(dir, "log"), Reserve: 4 << 20}, sm)
	if _, _, err := l.Apply(t.Context(), number(1)); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 9<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := l.Apply(t.Context(), number(1))
	if !fault.Has(err, fault.Exhausted) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a full disk answered %v", err)
	}
	if _, _, err := l.ApplyReleasing(t.Context(), number(1)); err != nil {
		t.Errorf("releasing was refused: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Apply(t.Context(), number(1)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if sm.total() != 3 {
		t.Errorf("the sum is %d", sm.total())
	}
}

// TestWhoComesWhileTheLogIsClosedIsRefused: given callers who found the log open, when it has been closed before they
// ask for anything, then each of them is refused.
func TestWhoComesWhileTheLogIsClosedIsRefused(t *testing.T) {
	waiters, _ := lifecycle.NewGroup(t.Context())
	if err := waiters.Wait(); err != nil {
		t.Fatal(err)
	}
	l := New(Config{Dir: t.TempDir()}, &adder{})
	r := &raft.Raft{}
	l.set(r, l.proposals(r, waiters), &guard{}, nil)
	for name, ask := range map[string]func() error{
		"a proposal": func() error { _, _, err := l.ApplyReleasing(t.Context(), nil); return err },
		"a barrier":  func() error { return l.Barrier(t.Context()) },
		"a snapshot": func() error { return l.Snapshot(t.Context()) },
	} {
		if err := within(t, name, ask); !fault.Has(err, fault.Unavailable) {
			t.Errorf("%s is answered %v", name, err)
		}
	}
}

// TestWhoHasGivenUpHoldsUpNothing: given callers who have given up, then what they proposed is not begun, and what they
// waited for keeps no log from ending.
func TestWhoHasGivenUpHoldsUpNothing(t *testing.T) {
	sm := &adder{}
	l := start(t, Config{Dir: t.TempDir()}, sm)
	gone, giveUp := context.WithCancel(t.Context())
	giveUp()
	for range 20 {
		if _, _, err := l.Apply(gone, number(1)); !fault.Has(err, fault.Timeout) {
			t.Errorf("a proposal ends with %v", err)
		}
		if err := l.Barrier(gone); err != nil && !fault.Has(err, fault.Timeout) {
			t.Errorf("a barrier ends with %v", err)
		}
	}
	if err := within(t, "the log", l.stop); err != nil {
		t.Error(err)
	}
	if got := sm.total(); got != 0 { // all that went into the log has ended
		t.Errorf("%d entries are applied", got)
	}
}

func TestAFailedWriteEndsTheLogLoudlyAndLosesNothing(t *testing.T) {
	var said bytes.Buffer
	dir := t.TempDir()
	l := start(t, Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))}, &adder{})
	if _, _, err := l.Apply(t.Context(), number(7)); err != nil {
		t.Fatal(err)
	}
	_, _, store, err := l.running()
	if err != nil {
		t.Fatal(err)
	}
	if err := store.WAL.Close(); err != nil { // from here on every write fails
		t.Fatal(err)
	}
	if _, _, err := l.Apply(t.Context(), number(7)); err == nil {
		t.Fatal("a write that failed was answered well")
	}
	if err := l.stop(); !fault.Has(err, fault.Internal) {
		t.Errorf("the log ended with %v", err)
	}
	if !bytes.Contains(said.Bytes(), []byte(dir)) {
		t.Errorf("the path was not named:\n%s", said.String())
	}
	again := &adder{}
	l = start(t, Config{Dir: dir}, again)
	if err := l.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again.total() != 7 {
		t.Errorf("the sum is %d", again.total())
	}
}
