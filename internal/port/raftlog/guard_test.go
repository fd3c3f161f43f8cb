package raftlog

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
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
